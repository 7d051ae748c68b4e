package httpbreaker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/breakwater-go/breakwater/breaker"
)

// ends collects what OnEnd is told.
type ends []End

func (e *ends) take(_ *http.Request, end End) { *e = append(*e, end) }

func (e *ends) only(t *testing.T) End {
	t.Helper()
	if len(*e) != 1 {
		t.Fatalf("OnEnd was told %d times: %+v, want once", len(*e), *e)
	}
	return (*e)[0]
}

// REQ-B14: OnEnd is told once of each request, and what it counted as.
func TestOnEndTellsTheOutcome(t *testing.T) {
	broken := errors.New("connection reset")
	for _, c := range []struct {
		name    string
		base    baseFunc
		outcome breaker.Outcome
		status  int
		failed  bool
	}{
		{"success", answer(http.StatusOK, "fine"), breaker.Success, http.StatusOK, false},
		{"the host answers", answer(http.StatusInternalServerError, "oh"), breaker.Success, http.StatusInternalServerError, false},
		{"bad status", answer(http.StatusServiceUnavailable, ""), breaker.Failure, http.StatusServiceUnavailable, true},
		{"no response", failing(broken), breaker.Failure, 0, true},
		{"ignored", failing(breaker.Ignore(broken)), breaker.Ignored, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var told ends
			tr := newTransport(t, Config{Base: c.base, OnEnd: told.take})
			_, _, _ = get(t, tr, "http://orders.test/")
			got := told.only(t)
			if got.Outcome != c.outcome || got.Status != c.status || (got.Err != nil) != c.failed || got.State != breaker.Closed || !got.Admitted {
				t.Errorf("got %+v, want %v, status %d", got, c.outcome, c.status)
			}
			if want := "orders.test:80"; got.Breaker.Name() != want {
				t.Errorf("got the breaker %q, want %q", got.Breaker.Name(), want)
			}
		})
	}
}

// A good response counts when its body ends, and OnEnd is told then; a refusal at once.
func TestOnEndWaitsForTheBody(t *testing.T) {
	var told ends
	tr := newTransport(t, Config{Base: answer(http.StatusOK, "fine"), OnEnd: told.take})
	resp, err := tr.RoundTrip(newRequest(t, "http://orders.test/"))
	if err != nil {
		t.Fatal(err)
	}
	if len(told) != 0 {
		t.Errorf("told %+v before the body was read", told)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	told.only(t)

	_ = tr.Breaker("orders.test:80").Force(breaker.ForcedOpen, "test")
	told = nil
	if _, _, err := get(t, tr, "http://orders.test/"); !errors.Is(err, breaker.ErrOpen) {
		t.Fatalf("got %v, want a refusal", err)
	}
	if got := told.only(t); !errors.Is(got.Err, breaker.ErrOpen) || got.State != breaker.ForcedOpen || got.Admitted {
		t.Errorf("got %+v, want the refusal", got)
	}
}

// The request whose failure opens the breaker is told so.
func TestOnEndTellsTheChange(t *testing.T) {
	var told ends
	c := Config{Base: failing(errors.New("down")), OnEnd: told.take}
	c.Breaker.Rules = []breaker.Rule{breaker.ConsecutiveFailures{Count: 2}}
	tr := newTransport(t, c)
	for range 2 {
		_, _, _ = get(t, tr, "http://orders.test/")
	}
	if told[0].From != told[0].To || told[1].From != breaker.Closed || told[1].To != breaker.Open {
		t.Errorf("got %v → %v, then %v → %v, want a change at the second only", told[0].From, told[0].To, told[1].From, told[1].To)
	}
}

// REQ-B18: a panic in OnEnd is reported, and costs the request nothing.
func TestOnEndPanics(t *testing.T) {
	var faults []breaker.Fault
	c := Config{Base: answer(http.StatusOK, "fine"), OnEnd: func(*http.Request, End) { panic("oh") }}
	c.Breaker = breakerConfig()
	c.Breaker.Observer.OnFault = func(f breaker.Fault) { faults = append(faults, f) }
	tr := newTransport(t, c)
	if _, body, err := get(t, tr, "http://orders.test/"); err != nil || body != "fine" {
		t.Errorf("got %q, %v, want the answer", body, err)
	}
	if len(faults) != 1 || faults[0].Part != "OnEnd" {
		t.Errorf("got faults %+v, want one of OnEnd", faults)
	}
}

// The caller's own cancellation counts for nothing, and OnEnd says so.
func TestOnEndOfACancelledRequest(t *testing.T) {
	var told ends
	tr := newTransport(t, Config{Base: baseFunc(silent), OnEnd: told.take})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, _ = fetch(tr, newRequest(t, "http://orders.test/").WithContext(ctx))
	if got := told.only(t); got.Outcome != breaker.Ignored {
		t.Errorf("got %v, want ignored", got.Outcome)
	}
}
