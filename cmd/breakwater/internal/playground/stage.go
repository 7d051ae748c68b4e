package playground

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/readpath"
)

// pace is how long the parts of a scenario take.
type pace struct{ calm, hold, settle time.Duration }

// full is for a person who watches.
var full = pace{calm: 4 * time.Second, hold: 8 * time.Second, settle: 4 * time.Second}

const (
	openBudget  = 10 * time.Second // for a breaker to open
	closeBudget = 45 * time.Second // for what is mended to be well again
	look        = 20 * time.Millisecond
)

// stage is what a scenario under way acts on. It is for the scenario's goroutine.
type stage struct {
	p      *Playground
	name   string
	well   func() bool   // what it begins with
	failed int           // expectations
	begun  time.Time     // of the measurement
	stall  time.Duration // of the machine, during it; set by its end
}

// measured is what was seen from the fault on.
type measured struct {
	reads, emits *counts
	modes        []readpath.ModeChange
	unfit        int // reads that were sent to a replica which was open or late
	lasted       time.Duration
}

func (s *stage) publish(to, text string) {
	s.p.config.Publish(api.Event{Kind: api.KindScenario, Name: s.name, To: to, Text: text})
}

// step says what happens now.
func (s *stage) step(format string, args ...any) {
	text := s.p.config.Redact.Text(fmt.Sprintf(format, args...))
	s.p.runs.change(func(r *api.LabRun) { r.Step = text })
	s.publish("step", text)
}

// answer says what the request met that the page asked about.
func (s *stage) answer(text string) {
	s.p.runs.change(func(r *api.LabRun) { r.Answer = text })
	s.publish("step", "what it met: "+text)
}

// check notes an expectation.
func (s *stage) check(held bool, expected, format string, args ...any) {
	if !held {
		s.failed++
	}
	c := api.LabCheck{Expected: expected, Seen: s.p.config.Redact.Text(fmt.Sprintf(format, args...)), Held: held}
	s.p.runs.change(func(r *api.LabRun) { r.Results = append(r.Results, c) })
}

// The delays by the machine from which on it breaks expectations by itself.
const (
	slowStall = 25 * time.Millisecond  // a consumer that gets no processor is slow: half of what makes a delivery slow
	longStall = 250 * time.Millisecond // timeouts pass: half of the shortest, that of a connection
)

// unless is check for an expectation that is not judged where the machine stalled for so long.
func (s *stage) unless(stalled time.Duration, held bool, expected, format string, args ...any) {
	seen := fmt.Sprintf(format, args...)
	if !held && s.stall >= stalled {
		held, seen = true, seen+fmt.Sprintf("; not judged, since the machine stalled for %v", round(s.stall))
	}
	s.check(held, expected, "%s", seen)
}

// verdict is how it ended, in a word and in words.
func (s *stage) verdict(interrupted bool, err error) (state, step string) {
	switch {
	case interrupted:
		return stopped, "stopped before its end, and not judged"
	case err != nil:
		return missed, "it could not be played: " + err.Error()
	case s.failed > 0:
		return missed, fmt.Sprintf("%d of its expectations did not hold", s.failed)
	}
	return passed, "all of its expectations held"
}

func (*stage) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// until waits for so long at the most, and tells how long it took and whether it came.
func (s *stage) until(ctx context.Context, budget time.Duration, came func() bool) (time.Duration, bool) {
	begin := time.Now()
	for {
		if came() {
			return time.Since(begin), true
		}
		if time.Since(begin) > budget || s.wait(ctx, look) != nil {
			return time.Since(begin), false
		}
	}
}

// prepared mends what is broken, waits until all is well, and lets traffic flow for a while.
func (s *stage) prepared(ctx context.Context) error {
	s.step("What was broken is mended. The scenario begins once all is well.")
	if err := s.p.mended(ctx); err != nil {
		return err
	}
	if took, well := s.until(ctx, closeBudget, s.well); !well && ctx.Err() == nil {
		return fmt.Errorf("not everything was well after %v: look at the breakers; a forced one stays as it is", took.Round(time.Second))
	}
	s.step("All is well, and traffic flows.")
	return s.wait(ctx, s.p.config.pace.calm)
}

// replicasWell tells whether every replica takes reads, and the path is normal.
func (s *stage) replicasWell() bool {
	for _, n := range s.p.config.Fleet.Nodes()[1:] {
		if s.state(n.Name) != breaker.Closed {
			return false
		}
	}
	return s.p.bench.Path().Mode() == readpath.Normal
}

// consumersWell tells whether every consumer gets its triggers, and no dead letter waits.
func (s *stage) consumersWell() bool {
	for _, name := range names {
		if c := s.p.consumers.stats(name); c.Breaker.State != breaker.Closed || c.Depth.Letters > c.Depth.Parked {
			return false
		}
	}
	return true
}

// state is that of a replica's breaker.
func (s *stage) state(node string) breaker.State {
	if b := s.p.bench.DB().Set().Breaker(node); b != nil {
		return b.Stats().State
	}
	return breaker.Closed
}

// trip tells when after the measurement's begin a breaker opened, and why; held: it did in time.
func (s *stage) trip(name string) (held bool, seen string) {
	t, ok := s.p.seen.trip(name)
	if !ok {
		return false, "it did not"
	}
	return t.At.Sub(s.begun) <= openBudget, fmt.Sprintf("after %v: %s", round(t.At.Sub(s.begun)), t.Reason)
}

// lane is the state of a consumer's breaker.
func (s *stage) lane(name string) breaker.State { return s.p.consumers.stats(name).Breaker.State }

// measure begins the measurement, end ends it.
func (s *stage) measure() (end func() measured) {
	unfit := s.p.bench.Misrouted()
	s.begun = time.Now()
	s.p.consumers.stall() // what was before counts for nothing
	s.p.seen.open()
	all := []*meter{&s.p.reads, &s.p.consumers.emits, &s.p.twin.reads, &s.p.twin.emits}
	for _, m := range all {
		m.open()
	}
	return func() measured {
		s.stall = s.p.consumers.stall()
		s.beside(s.p.twin.reads.shut(), s.p.twin.emits.shut())
		return measured{
			reads: s.p.reads.shut(), emits: s.p.consumers.emits.shut(), modes: s.p.seen.shut(),
			unfit: s.p.bench.Misrouted() - unfit, lasted: time.Since(s.begun),
		}
	}
}

// beside tells what the same load without the library met, where it ran.
func (s *stage) beside(reads, emits *counts) {
	if reads.all+emits.all == 0 {
		return
	}
	text := fmt.Sprintf("%d of %d reads got an old answer that looks fresh, %d failed, P99 %.0f ms; %d of %d triggers were lost, P99 %.0f ms",
		reads.stale, reads.all, reads.all-reads.good, reads.percentile(0.99), emits.all-emits.good, emits.all, emits.percentile(0.99))
	s.p.runs.change(func(r *api.LabRun) { r.Beside = text })
}

// breaks breaks targets at once.
func (s *stage) breaks(ctx context.Context, fault string, targets ...string) error {
	for _, t := range targets {
		if err := s.p.faults.inject(ctx, api.FaultRequest{Target: t, Fault: fault}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// mends mends all that was broken.
func (s *stage) mends(ctx context.Context) error {
	if err := s.p.mended(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// read makes one real read of a class.
func (s *stage) read(ctx context.Context, c readpath.Class) lab.Answer { return s.p.bench.Read(ctx, c) }

// emit makes one real emit to a consumer.
func (s *stage) emit(ctx context.Context, name string) (emit.Result, time.Duration) {
	t := emit.Trigger{ID: fmt.Sprintf("asked-%s-%d", name, time.Now().UnixNano()), Type: typeOf(name), Source: "breakwater-lab", Data: payload}
	return s.p.consumers.emit(ctx, s.p.bench.Now, name, t)
}
