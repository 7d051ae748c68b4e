package api

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/readpath"
)

// Each reader sees every event once and in order, whatever the publishers do (REQ-B14).
func TestHubStress(t *testing.T) {
	const publishers, readers, each = 4, 4, hubSize / 4 // what fits: nobody may miss any
	h := NewHub(nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			seen := map[string]int{}
			for after := uint64(0); after < publishers*each; {
				events, missed, err := h.Next(ctx, after)
				if err != nil || missed > 0 {
					t.Errorf("after %d: missed %d, %v", after, missed, err)
					return
				}
				for _, e := range events {
					n, _ := strconv.Atoi(e.Text)
					if e.ID != after+1 || n != seen[e.Name]+1 {
						t.Errorf("after %d: got ID %d, event %d of %s, want %d", after, e.ID, n, e.Name, seen[e.Name]+1)
						return
					}
					after, seen[e.Name] = e.ID, n
				}
			}
		})
	}
	for p := range publishers {
		all.Go(func() {
			for n := range each {
				h.Publish(Event{Kind: KindTransition, Name: strconv.Itoa(p), Text: strconv.Itoa(n + 1)})
			}
		})
	}
	all.Wait()
}

// Who fell out of the ring is told how many events it missed.
func TestHubGap(t *testing.T) {
	h := NewHub(nil)
	for range hubSize + 10 {
		h.Publish(Event{Kind: KindAction})
	}
	events, missed, err := h.Next(t.Context(), 4)
	if err != nil || missed != 6 || events[0].ID != 11 || len(events) != maxBatch {
		t.Errorf("got missed %d, first %d, %d of them, %v; want 6, 11, %d", missed, events[0].ID, len(events), err, maxBatch)
	}
	if got := h.Kept(); len(got) != hubSize || got[0].ID != 11 || got[hubSize-1].ID != hubSize+10 {
		t.Errorf("kept: got %d", len(got))
	}
}

// Next waits for an event, and for no longer than its context.
func TestHubNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, _, err := h.Next(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the context", err)
		}
		began := time.Now()
		time.AfterFunc(time.Hour, func() { h.Publish(Event{Kind: KindAction}) })
		events, _, err := h.Next(t.Context(), 0)
		if err != nil || len(events) != 1 || time.Since(began) != time.Hour {
			t.Errorf("got %v, %v after %v, want one after an hour", events, err, time.Since(began))
		}
	})
}

// Triggers that are shed by the thousand are one event a second and consumer, which counts them; the first is told at once.
func TestHubCoalesces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub(nil)
		o := h.Consumers()
		for range 1000 {
			o.OnShed(emit.Letter{Consumer: "ledger"}, emit.ErrFull)
			o.OnShed(emit.Letter{Consumer: "mailer"}, emit.ErrFull)
		}
		o.OnParked(emit.Letter{Consumer: "ledger", Reason: emit.ReasonRejected})
		time.Sleep(1500 * time.Millisecond)
		o.OnShed(emit.Letter{Consumer: "ledger"}, emit.ErrFull)
		time.Sleep(10 * time.Second)
		o.OnShed(emit.Letter{Consumer: "ledger"}, emit.ErrFull)
		counts := map[string][]uint64{}
		total := 0
		for _, e := range h.Kept() {
			counts[e.Kind+" "+e.Name] = append(counts[e.Kind+" "+e.Name], e.Count)
			total += int(e.Count)
		}
		if got, want := fmt.Sprint(counts), "map[parked ledger:[1] shed ledger:[1 999 1 1] shed mailer:[1 999]]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		time.Sleep(2 * time.Second) // the last timer
		if total != 2003 {
			t.Errorf("counted %d, want 2003", total)
		}
	})
}

// Why a breaker opened last stays known after it has closed.
func TestHubRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redact := &Redactor{}
		redact.Add(secret)
		h := NewHub(redact)
		b, err := breaker.New(breaker.Config{
			Name: "r1", Rules: []breaker.Rule{breaker.ConsecutiveFailures{Count: 1}}, Observer: breaker.Observer{OnTransition: h.Replicas().OnTransition},
		})
		if err != nil {
			t.Fatal(err)
		}
		p, _ := b.Allow()
		p.Done(errors.New("login failed for " + secret))
		if err := b.Force(breaker.Closed, "test"); err != nil {
			t.Fatal(err)
		}
		trip := h.Trip(ScopeReplica, "r1")
		if trip == nil || trip.Reason.Rule != breaker.RuleConsecutiveFailures || !strings.Contains(trip.Reason.Text, "login failed for …") {
			t.Fatalf("got %+v", trip)
		}
		if h.Trip(ScopeConsumer, "r1") != nil {
			t.Error("a consumer of that name has not opened")
		}
		events := h.Kept()
		if len(events) != 2 || events[0].To != "open" || events[1].To != "closed" || events[1].Generation != events[0].Generation+1 {
			t.Errorf("got %+v", events)
		}

		path := h.Path()
		path.OnMode(readpath.ModeChange{From: readpath.Normal, To: readpath.Degraded, At: time.Now()})
		since := h.InMode()
		path.OnMode(readpath.ModeChange{From: readpath.Recovering, To: readpath.Recovering, At: time.Now().Add(time.Hour)})
		if !h.InMode().Equal(since) || since.IsZero() {
			t.Errorf("got %v, want %v: another class is no other mode", h.InMode(), since)
		}

		for range 6 { // it is told every 10 s: one event
			path.OnOverBudget(readpath.OverBudget{Endpoint: "checkout", Rate: 300, Budget: 200})
			time.Sleep(10 * time.Second)
		}
		if got := h.OverBudget()["checkout"].RatePerSec; got != 300 {
			t.Errorf("over budget: got %v, want 300", got)
		}
		time.Sleep(overBudgetHolds)
		if got := h.OverBudget(); len(got) != 0 {
			t.Errorf("over budget: got %v, want none any more", got)
		}
		told := 0
		for _, e := range h.Kept() {
			if e.Kind == KindOverBudget {
				told++
			}
		}
		if told != 1 {
			t.Errorf("over budget: told %d times, want once", told)
		}
	})
}

// A secret is replaced as it is, as a URL and a quoted text write it, and where the text was cut within it.
func TestRedactor(t *testing.T) {
	var r Redactor
	r.Add("p@ss w\"rd", "p@ss", "abc", "", secret)
	r.Add("newer-token")
	for text, want := range map[string]string{
		`is p@ss w"rd.`:                   "is ….",
		`postgres://u:p%40ss%20w%22rd@h/`: "postgres://u:…@h/",
		`p%40ss+w%22rd`:                   "…",
		`said \"p@ss w\"rd\"`:             `said \"…\"`,
		"p@ss alone":                      "… alone",
		"abc is too short":                "abc is too short",
		"cut: hunter2-s3":                 "cut: …",
		"cut: hunter2-s3…":                "cut: …",
		"hun":                             "hun",
		"newer-token, " + secret:          "…, …",
		"":                                "",
	} {
		if got := r.Text(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	var none *Redactor
	if got := none.Text(secret); got != secret {
		t.Errorf("nil: got %q", got)
	}
}
