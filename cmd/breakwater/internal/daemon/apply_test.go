package daemon

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// A reload is made whole or not at all: where a step fails, those before it are taken back, the last one first.
func TestApply(t *testing.T) {
	var did []string
	step := func(name string, err, undo error) change {
		return change{
			name,
			func() error { did = append(did, name); return err },
			func() error { did = append(did, "undo "+name); return undo },
		}
	}
	broken, stuck := errors.New("broken"), errors.New("stuck")
	for _, tt := range []struct {
		name    string
		changes []change
		did     []string
		err     string
	}{
		{"all", []change{step("a", nil, nil), step("b", nil, nil)}, []string{"a", "b"}, ""},
		{"the first", []change{step("a", broken, nil), step("b", nil, nil)}, []string{"a"}, "a: broken"},
		{"the last", []change{step("a", nil, nil), step("b", nil, nil), step("c", broken, nil)}, []string{"a", "b", "c", "undo b", "undo a"}, "c: broken"},
		{
			"an undo too",
			[]change{step("a", nil, nil), step("b", nil, stuck), step("c", broken, nil)},
			[]string{"a", "b", "c", "undo b", "undo a"},
			"c: broken\nb could not be put back: stuck",
		},
	} {
		did = nil
		err := apply(tt.changes)
		if !slices.Equal(did, tt.did) {
			t.Errorf("%s: got %q, want %q", tt.name, did, tt.did)
		}
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || strings.TrimSpace(err.Error()) != tt.err) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.err)
		}
	}
}
