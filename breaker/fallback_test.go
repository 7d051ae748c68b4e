package breaker

import (
	"context"
	"errors"
	"testing"
)

// REQ-B12: what is asked when, and what the breaker counts.
func TestFallback(t *testing.T) {
	errOther := errors.New("no answer either")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx       context.Context
		open      bool
		result    error
		onFailure bool
		fallback  error
		none      bool
		want      int // 1: the call's, 2: the fallback's, 0: neither
		wantErr   error
		failures  uint64
	}{
		"success":                        {want: 1, onFailure: true},
		"refused":                        {open: true, want: 2},
		"refused, fallback fails":        {open: true, fallback: errOther, wantErr: errOther},
		"refused, no fallback":           {open: true, none: true, wantErr: ErrOpen},
		"failed":                         {result: errDown, wantErr: errDown, want: 1, failures: 1},
		"failed, by choice":              {result: errDown, onFailure: true, want: 2, failures: 1},
		"failed, by choice, no fallback": {result: errDown, onFailure: true, none: true, want: 1, wantErr: errDown, failures: 1},
		"ignored":                        {result: errNeutral, onFailure: true, want: 1, wantErr: errNeutral},
		"cancelled by the caller":        {ctx: cancelled, result: errDown, onFailure: true, want: 1, wantErr: errDown},
		"refused by another breaker":     {result: ErrOpen, wantErr: ErrOpen, want: 1, failures: 1},
		"refused by another, by choice":  {result: ErrOpen, onFailure: true, want: 2, failures: 1},
		"failed, by choice, both errors": {result: errDown, onFailure: true, fallback: errOther, wantErr: errOther, failures: 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := mustNew(t, behaviourConfig())
			if tc.open {
				b.Trip(Reason{})
			}
			ctx := t.Context()
			if tc.ctx != nil {
				ctx = tc.ctx
			}
			f := Fallback[int]{OnFailure: tc.onFailure, Func: func(_ context.Context, cause error) (int, error) {
				if cause == nil {
					t.Error("the fallback was given no cause")
				}
				if tc.fallback != nil {
					return 0, tc.fallback
				}
				return 2, nil
			}}
			if tc.none {
				f.Func = nil
			}
			got, err := DoOr(ctx, b, func(context.Context) (int, error) { return 1, tc.result }, f)
			if got != tc.want || !errors.Is(err, tc.wantErr) || err != nil && tc.wantErr == nil {
				t.Errorf("got %d, %v; want %d, %v", got, err, tc.want, tc.wantErr)
			}
			if got := b.Stats().Failures; got != tc.failures {
				t.Errorf("failures: got %d, want %d", got, tc.failures)
			}
		})
	}
}

// REQ-B10: a panic goes on, counts, and asks no fallback.
func TestFallbackAndPanic(t *testing.T) {
	b := mustNew(t, behaviourConfig())
	defer func() {
		if v := recover(); v != "boom" {
			t.Errorf("got %v", v)
		}
		if got := b.Stats().Failures; got != 1 {
			t.Errorf("failures: got %d, want 1", got)
		}
	}()
	_, _ = DoOr(t.Context(), b, func(context.Context) (int, error) { panic("boom") }, Fallback[int]{
		OnFailure: true,
		Func:      func(context.Context, error) (int, error) { t.Error("asked"); return 0, nil },
	})
}

// Of what a call counts as, Failure and Fatal ask for the fallback.
func TestFallbackOnWhichOutcome(t *testing.T) {
	for outcome, want := range map[Outcome]bool{Success: false, Failure: true, Ignored: false, Fatal: true} {
		b := mustNew(t, Config{Classify: func(error) Outcome { return outcome }})
		asked := false
		DoOr(t.Context(), b, func(context.Context) (int, error) { return 0, errDown }, Fallback[int]{
			OnFailure: true,
			Func:      func(context.Context, error) (int, error) { asked = true; return 0, nil },
		})
		if asked != want {
			t.Errorf("%v: asked %v, want %v", outcome, asked, want)
		}
	}
}
