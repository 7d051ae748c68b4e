package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// value is a flag's value. A text that it cannot read is noted as a fault instead of ending the
// parsing, so that all faults of a command line are told at once.
type value[T any] struct {
	to     *T
	kind   string // as --help shows it
	flag   string
	mend   string
	read   func(string) (T, error)
	faults *[]error
}

// Set reads a text, or notes what is wrong with it.
func (v value[T]) Set(text string) error {
	got, err := v.read(text)
	if err != nil {
		*v.faults = append(*v.faults, fmt.Errorf("--%s %q: %s", v.flag, text, v.mend))
		return nil //nolint:nilerr // noted above
	}
	*v.to = got
	return nil
}

func (v value[T]) String() string {
	if v.to == nil {
		return ""
	}
	text := fmt.Sprint(*v.to)
	if text == "0s" { // pflag shows a default that it does not know to be none
		return ""
	}
	return text
}

// Type is the word for the value in --help.
func (v value[T]) Type() string { return v.kind }

// flagReader adds flags whose faults it collects.
type flagReader struct {
	set    *pflag.FlagSet
	faults *[]error
}

func (r flagReader) whole(to *int, name, usage, mend string) {
	r.set.Var(value[int]{to, "int", name, mend, strconv.Atoi, r.faults}, name, usage)
}

func (r flagReader) positive(to *int, name, usage, mend string) {
	read := func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		return n, errors.Join(err, refuseZero(n == 0))
	}
	r.set.Var(value[int]{to, "int", name, mend, read, r.faults}, name, usage)
}

func (r flagReader) natural(to *uint64, name, usage, mend string) {
	read := func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) }
	r.set.Var(value[uint64]{to, "uint", name, mend, read, r.faults}, name, usage)
}

func (r flagReader) length(to *time.Duration, name, usage, mend string) {
	read := func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		return d, errors.Join(err, refuseZero(d == 0))
	}
	r.set.Var(value[time.Duration]{to, "duration", name, mend, read, r.faults}, name, usage)
}

func (r flagReader) yes(to *bool, name, usage string) {
	r.set.Var(value[bool]{to, "bool", name, "give it alone, or as =true or =false", strconv.ParseBool, r.faults}, name, usage)
	r.set.Lookup(name).NoOptDefVal = "true"
}

// refuseZero refuses a zero that was given: left out is what 0 means to the lab.
func refuseZero(zero bool) error {
	if zero {
		return errors.New("zero")
	}
	return nil
}

// unknownFlags finds the flags that a set does not have, among a command's own arguments.
func unknownFlags(set *pflag.FlagSet, args []string) (faults []error) {
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		name, _, joined := strings.Cut(args[i], "=")
		if !strings.HasPrefix(name, "-") || name == "-" {
			continue
		}
		var flag *pflag.Flag
		if long, ok := strings.CutPrefix(name, "--"); ok {
			flag = set.Lookup(long)
		}
		switch {
		case flag == nil:
			faults = append(faults, fmt.Errorf("%s: unknown flag; leave it out", name))
		case !joined && flag.NoOptDefVal == "":
			i++ // its value
		}
	}
	return faults
}
