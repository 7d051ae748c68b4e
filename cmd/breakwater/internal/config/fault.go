package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// theFile is the path of a fault of the file as a whole.
const theFile = "the file"

// mostFaults bounds how many faults of one file are told: more help nobody, and they stand in the log, the events and the status.
const mostFaults = 100

// A Fault is one fault of a file. Lines and columns count from 1, columns in characters.
type Fault struct {
	File         string
	Line, Column int
	Path         string // of the field, such as settings.open.base
	Text         string // what is wrong with it, and the mend
}

// String is the fault in one line, in the form that editors jump by.
func (f Fault) String() string {
	return fmt.Sprintf("%s:%d:%d: %s %s", f.File, f.Line, f.Column, f.Path, f.Text)
}

// FaultErrors are those of one file, in the order of their places.
type FaultErrors []Fault

// Error lists the faults, one a line.
func (f FaultErrors) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

// sorted puts the faults in order, and behind them how many more there are.
func (f FaultErrors) sorted(more int) FaultErrors {
	slices.SortStableFunc(f, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if more > 0 {
		last := f[len(f)-1]
		last.Path, last.Text = theFile, fmt.Sprintf("has %d faults more, which are not told: at most %d are, mend them first", more, len(f))
		f = append(f, last)
	}
	return f
}
