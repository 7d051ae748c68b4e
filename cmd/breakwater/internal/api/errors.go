package api

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/replica"
)

// A FieldFault is one thing that is wrong with what was asked.
type FieldFault struct {
	Field string `json:"field"`
	Value string `json:"value"`
	Mend  string `json:"mend"`
}

// An InvalidError says that what was asked makes no sense, with every fault (status 400).
type InvalidError struct{ Fields []FieldFault }

// Error tells every fault.
func (e *InvalidError) Error() string {
	said := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		said[i] = fmt.Sprintf("%s is %s: %s", f.Field, f.Value, f.Mend)
	}
	return strings.Join(said, "; ")
}

// An UnknownError says that there is nothing of a name, and which there are (status 404).
type UnknownError struct {
	What, Name string
	Known      []string // none: there are none, or too many to name
}

// Error names those that exist.
func (e *UnknownError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("there is no %s %q", e.What, e.Name)
	}
	return fmt.Sprintf("there is no %s %q: use one of %s", e.What, e.Name, strings.Join(e.Known, ", "))
}

// ErrBusy matches the error of what cannot be done now, since as much as allowed is under way (status 503).
var ErrBusy = errors.New("busy")

func invalid(faults []FieldFault) error {
	if len(faults) == 0 {
		return nil
	}
	return &InvalidError{faults}
}

// saidByLibrary is a fault in the words of a library: "package: Field is value: mend", with more before the field in some.
var (
	saidByLibrary = regexp.MustCompile(`^(?:.*?: )?([A-Z][\w.\[\]]*) is ([^:,]*)[:,] (.*)$`)
	fieldName     = regexp.MustCompile(`\b[A-Z]\w*(\.[A-Z]\w*)*`)
)

// fromLibrary tells the faults that a library found under the names of the interface. Fields that are not in names keep their own.
func fromLibrary(err error, names map[string]string) error {
	if errors.Is(err, emit.ErrClosed) || errors.Is(err, replica.ErrClosed) {
		return err // no fault of who asked
	}
	rename := func(field string) string { return cmp.Or(names[field], field) }
	var faults []FieldFault
	for _, e := range leaves(err) {
		text := strings.ReplaceAll(e.Error(), "\n", "; ")
		f := FieldFault{Field: "settings", Value: "refused", Mend: text}
		if said := saidByLibrary.FindStringSubmatch(text); said != nil {
			f = FieldFault{rename(said[1]), said[2], fieldName.ReplaceAllStringFunc(said[3], rename)}
		}
		faults = append(faults, f)
	}
	return invalid(faults)
}

// leaves are the errors that were joined, and joined again.
func leaves(err error) (all []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		all = append(all, leaves(e)...)
	}
	return all
}
