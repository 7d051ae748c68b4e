package breaker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

// behaviours-breaker 35: the marker works through wrapping, and the caller's errors.Is too.
func TestIgnoreWorksThroughWrapping(t *testing.T) {
	c := behaviourConfig()
	c.Classify = func(error) Outcome { return Failure }
	b := mustNew(t, c)
	cause := &fs.PathError{Op: "read", Path: "x", Err: fs.ErrNotExist}
	for range 10 {
		_, err := Do(t.Context(), b, func(context.Context) (int, error) {
			return 0, fmt.Errorf("lookup: %w", Ignore(cause))
		})
		if path, ok := errors.AsType[*fs.PathError](err); !ok || path != cause || !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the cause is gone from %v", err)
		}
		if want := "lookup: " + cause.Error(); err.Error() != want {
			t.Fatalf("got %q, want %q", err, want)
		}
	}
	wantState(t, b, Closed)
	if s := b.Stats(); s.Ignored != 10 || s.Failures != 0 {
		t.Errorf("got %d ignored, %d failures; want 10, 0", s.Ignored, s.Failures)
	}
	if Ignore(nil) != nil {
		t.Error("Ignore(nil) is not nil")
	}
}
