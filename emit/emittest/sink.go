package emittest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

// An Answer is what a consumer does with a trigger.
type Answer int

// The answers.
const (
	Accept Answer = iota // it takes it
	Reject               // it will never take it
	Fail                 // it fails
	Later                // it fails and asks to be left alone for some time
	Hang                 // it does not answer until the context of the delivery has ended
)

// String names the answer.
func (a Answer) String() string { return [...]string{"accept", "reject", "fail", "later", "hang"}[a] }

// A Consumer is a sink with the consumer that it delivers to.
type Consumer struct {
	Sink emit.Sink
	// Set says what the consumer does from now on; it accepts before the first call. Required.
	Set func(Answer)
	// Taken returns what the consumer has accepted so far, in the order in which it did. Required.
	Taken func() []emit.Trigger
}

// Sinks is what the suite needs to know of a kind of sink.
type Sinks struct {
	// Open starts a consumer and a sink for it; t.Cleanup ends both. Required.
	Open func(t *testing.T) Consumer
	// Answers are those that the consumer can give. Default: all.
	Answers []Answer
	// Bubble runs the suite in synctest bubbles. It must be false for sinks on real sockets.
	Bubble bool
}

// Sink runs the contract of emit.Sink.
func Sink(t *testing.T, s Sinks) {
	t.Helper()
	if s.Answers == nil {
		s.Answers = []Answer{Accept, Reject, Fail, Later, Hang}
	}
	for _, part := range []struct {
		name string
		run  func(*testing.T, Sinks)
	}{
		{"delivers what it got", testDelivers},
		{"answers", testAnswers},
		{"context ended", testSinkContextEnded},
		{"hang ends with the context", testHang},
		{"concurrency", testSinkConcurrency},
	} {
		t.Run(part.name, func(t *testing.T) {
			if s.Bubble {
				synctest.Test(t, func(t *testing.T) { part.run(t, s) })
				return
			}
			part.run(t, s)
		})
	}
}

// patience is how long a sink may take that does not hang.
const patience = 10 * time.Second

func deliver(t *testing.T, c Consumer, trigger emit.Trigger) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return c.Sink.Deliver(ctx, trigger)
}

func testDelivers(t *testing.T, s Sinks) {
	t.Helper()
	c := s.Open(t)
	rich, bare := full().Trigger, letter("bare", low).Trigger
	rich.Data, rich.Attributes = []byte(`{"text":"ü\n"}`), map[string]string{"traceparent": "00-1", "tenant": "ü \"x\" 100%"}
	data, attributes := slices.Clone(rich.Data), maps.Clone(rich.Attributes)
	sent := []emit.Trigger{rich, bare, rich}
	for i := range sent {
		if err := deliver(t, c, sent[i]); err != nil {
			t.Fatalf("Deliver(%s): %v", sent[i].ID, err)
		}
	}
	if !slices.Equal(rich.Data, data) || !maps.Equal(rich.Attributes, attributes) {
		t.Errorf("Deliver changed the trigger: %+v", rich)
	}
	got := c.Taken()
	if len(got) != 3 { // at least once, and a duplicate only where the caller delivers again
		t.Fatalf("the consumer took %d triggers of 3", len(got))
	}
	for i := range sent {
		sameTrigger(t, got[i], sent[i])
	}
}

func sameTrigger(t *testing.T, got, want emit.Trigger) {
	t.Helper()
	type words struct{ ID, Type, Source, Subject, Key, Data string }
	of := func(x emit.Trigger) words { return words{x.ID, x.Type, x.Source, x.Subject, x.Key, string(x.Data)} }
	if of(got) != of(want) || !got.Time.Equal(want.Time) {
		t.Errorf("the consumer took %+v; want %+v", got, want)
	}
	for name, value := range want.Attributes {
		if got.Attributes[name] != value {
			t.Errorf("attribute %s of %s is %q; want %q", name, got.ID, got.Attributes[name], value)
		}
	}
}

// testAnswers: each answer is told as what it is, and the next trigger is delivered again.
func testAnswers(t *testing.T, s Sinks) {
	t.Helper()
	c := s.Open(t)
	for i, a := range s.Answers {
		if a == Hang {
			continue
		}
		c.Set(a)
		err := deliver(t, c, letter(fmt.Sprint("answer", i), low).Trigger)
		later, isLater := errors.AsType[*emit.LaterError](err)
		if (err == nil) != (a == Accept) || errors.Is(err, emit.ErrRejected) != (a == Reject) || isLater != (a == Later) {
			t.Errorf("a consumer that does %v: %v", a, err)
		}
		if isLater && later.After <= 0 {
			t.Errorf("a consumer that asks to be left alone: %v from now on", later.After)
		}
		c.Set(Accept)
		if err := deliver(t, c, letter(fmt.Sprint("after", i), low).Trigger); err != nil {
			t.Errorf("after a consumer did %v: %v", a, err)
		}
	}
}

// testSinkContextEnded: it is no rejection, and not told as delivered unless it was.
func testSinkContextEnded(t *testing.T, s Sinks) {
	t.Helper()
	c := s.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := c.Sink.Deliver(ctx, letter("a", low).Trigger)
	if taken := len(c.Taken()); errors.Is(err, emit.ErrRejected) || err == nil && taken == 0 {
		t.Errorf("Deliver with a context that has ended: %v, and the consumer took %d", err, taken)
	}
}

func testHang(t *testing.T, s Sinks) {
	t.Helper()
	if !slices.Contains(s.Answers, Hang) {
		t.Skip("the consumer cannot hang")
	}
	c := s.Open(t)
	c.Set(Hang)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.Sink.Deliver(ctx, letter("a", low).Trigger) }()
	select {
	case err := <-ended:
		if err == nil || errors.Is(err, emit.ErrRejected) {
			t.Errorf("a consumer that does not answer: %v; want a failure", err)
		}
	case <-time.After(patience):
		t.Fatal("Deliver goes on though its context has ended")
	}
	c.Set(Accept)
	if err := deliver(t, c, letter("b", low).Trigger); err != nil {
		t.Errorf("after a consumer that hung: %v", err)
	}
}

func testSinkConcurrency(t *testing.T, s Sinks) {
	t.Helper()
	const callers, each = 8, 10
	c := s.Open(t)
	var owned sync.WaitGroup
	for n := range callers {
		owned.Go(func() {
			for i := range each {
				if err := deliver(t, c, letter(fmt.Sprintf("%d-%d", n, i), low).Trigger); err != nil {
					t.Errorf("Deliver: %v", err)
				}
			}
		})
	}
	owned.Wait()
	seen := map[string]int{}
	taken := c.Taken()
	for i := range taken {
		seen[taken[i].ID]++
	}
	if len(seen) != callers*each {
		t.Errorf("%d different triggers arrived of %d", len(seen), callers*each)
	}
}
