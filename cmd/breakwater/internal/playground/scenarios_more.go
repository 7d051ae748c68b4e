package playground

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/readpath"
)

// playAllLagging pauses replay on every replica until the path is degraded, resumes it, and waits until every class has the
// replicas back.
func playAllLagging(ctx context.Context, s *stage) error {
	end := s.measure()
	s.step("Replay is paused on every replica.")
	var all []string
	for _, n := range s.p.config.Fleet.Nodes()[1:] {
		all = append(all, n.Name)
	}
	if err := s.breaks(ctx, "pause", all...); err != nil {
		return err
	}
	toDegraded, degraded := s.until(ctx, openBudget, func() bool { return s.p.bench.Path().Mode() == readpath.Degraded })
	s.answer(met(s.read(ctx, readpath.Degradable), ""))
	s.step("No replica is fresh enough: critical reads go to the primary within its budget, product pages come from the cache, the rest is dropped.")
	if err := s.wait(ctx, s.p.config.pace.hold); err != nil {
		return err
	}
	s.step("Replay goes on. The classes get the replicas back one after the other, each once they have been well for a while.")
	if err := s.mends(ctx); err != nil {
		return err
	}
	toNormal, normal := s.until(ctx, closeBudget, func() bool { return s.p.bench.Path().Mode() == readpath.Normal })
	if err := s.wait(ctx, s.p.config.pace.settle); err != nil {
		return err
	}
	m := end()
	s.unless(longStall, degraded, "the path is degraded within "+openBudget.String(), "after %v", round(toDegraded))
	s.checkDegraded(m)
	s.unless(longStall, normal && slices.Equal(givenBack(m.modes), inOrder), "the replicas are given back to "+strings.Join(inOrder, ", then "),
		"%s; all within %v", strings.Join(givenBack(m.modes), ", then "), round(toNormal))
	return nil
}

// inOrder is the order in which classes get the replicas back.
var inOrder = []string{"critical", "degradable", "sheddable"}

func givenBack(steps []readpath.ModeChange) (order []string) {
	for _, step := range steps {
		if step.To == readpath.Degraded {
			order = nil
		}
		for _, c := range step.Given {
			if !slices.Contains(order, c.String()) {
				order = append(order, c.String())
			}
		}
	}
	if n := len(steps); n > 0 && steps[n-1].To == readpath.Normal && len(order) < len(inOrder) {
		order = append(order, inOrder[len(order):]...) // the step to normal gives the last one
	}
	return order
}

func (s *stage) checkDegraded(m measured) {
	b := s.p.bench.Path().Config().Budget
	most := float64(b.Burst) + b.Rate*m.lasted.Seconds()
	what := m.reads.what
	s.check(m.reads.stale == 0 && m.reads.all > 0, "no answer is older than its limit unless it says so", "%d of %d reads", m.reads.stale, m.reads.all)
	s.check(m.reads.critical == 0, "no critical read gets an old answer", "%d", m.reads.critical)
	s.check(float64(what["primary"]) <= most, "the primary answers within its budget", "%d reads in %v, of %.0f at the most", what["primary"], round(m.lasted), most)
	s.check(what["cache"] > 0, "product pages come from the cache, flagged", "%d", what["cache"])
	s.check(what[shed] > 0, "the least important reads are dropped", "%d", what[shed])
	s.check(m.unfit == 0, "no read is sent to a replica that is out of use or known to be late", "%d", m.unfit)
}

// What a trigger may meet.
const (
	keptAtOnce   = "it is stored at once, and delivered later"
	keptAfter    = "it waits for the timeout, is stored, and delivered later"
	gotThrough   = "it is delivered"
	lost         = "an error, and it is lost"
	storedAtOnce = 100 * time.Millisecond // the longest that counts as at once
)

func metTrigger(r emit.Result, took time.Duration) string {
	switch {
	case r.Outcome == emit.Delivered:
		return gotThrough
	case r.Outcome == emit.Stored && took <= storedAtOnce:
		return keptAtOnce
	case r.Outcome == emit.Stored:
		return keptAfter
	}
	return lost
}

// theIll is the consumer that scenarios break.
const theIll = "mailer"

func consumerScenario(name, title, fault, does, shows, question string) scenario {
	return scenario{
		LabScenario: api.LabScenario{
			Name: name, Title: title, Does: does, Shows: shows, Seconds: 30, Question: question, Answers: []string{keptAtOnce, keptAfter, gotThrough, lost},
		},
		play: func(ctx context.Context, s *stage) error { return playConsumer(ctx, s, fault) }, well: (*stage).consumersWell,
	}
}

// playConsumer breaks the mailer until it is cut off, mends it, and waits until it has got what it missed.
func playConsumer(ctx context.Context, s *stage, fault string) error {
	end, before := s.measure(), s.p.consumers.stats(theIll)
	s.step("The mailer is ill: %s.", map[string]string{"slow": "it needs 900 ms for what took 8", "fail": "it answers every call with an error"}[fault])
	if err := s.breaks(ctx, fault, theIll); err != nil {
		return err
	}
	s.until(ctx, openBudget, func() bool { return s.lane(theIll) == breaker.Open })
	s.answer(metTrigger(s.emit(ctx, theIll)))
	s.step("The mailer is cut off. Its triggers are stored; the other consumers notice nothing.")
	if err := s.wait(ctx, s.p.config.pace.hold); err != nil {
		return err
	}
	s.step("The mailer is well again. A stored trigger is its probe; then it gets what it missed.")
	if err := s.mends(ctx); err != nil {
		return err
	}
	toClose, closed := s.until(ctx, closeBudget, s.caughtUp)
	if err := s.wait(ctx, s.p.config.pace.settle); err != nil {
		return err
	}
	m := end()
	opened, when := s.trip(theIll)
	s.unless(longStall, opened, "the mailer is cut off within "+openBudget.String(), "%s", when)
	s.checkConsumers(m, before)
	s.unless(slowStall, closed, "it gets what it missed within "+closeBudget.String()+" of its mending", "after %v", round(toClose))
	return nil
}

// caughtUp tells whether the mailer gets triggers again, and none of before waits.
func (s *stage) caughtUp() bool {
	c := s.p.consumers.stats(theIll)
	return c.Breaker.State == breaker.Closed && c.Depth.Letters <= c.Depth.Parked
}

// emitWait is how long an emit may take: the timeout of a delivery, and as much again for a busy machine.
const emitWait = 400 * time.Millisecond

func (s *stage) checkConsumers(m measured, before emit.ConsumerStats) {
	after := s.p.consumers.stats(theIll)
	gone := (after.Shed - before.Shed) + (after.Refused - before.Refused)
	ill := m.emits.at(theIll)
	s.check(gone == 0 && ill.all > 0, "no trigger for the mailer is lost", "%d of %d: %s", gone, ill.all, outcomes(ill))
	s.unless(slowStall, m.emits.longest <= emitWait, "no emit takes longer than "+emitWait.String(), "the longest took %v", round(m.emits.longest))
	for _, name := range names {
		if name == theIll {
			continue
		}
		c := m.emits.at(name)
		s.unless(slowStall, c.all > 0 && s.lane(name) == breaker.Closed && c.good*100 >= c.all*99, "triggers for "+name+" get through as before",
			"%d of %d at once, P99 %.1f ms", c.good, c.all, c.percentile(0.99))
	}
}

func outcomes(c *counts) string {
	var parts []string
	for _, o := range []emit.Outcome{emit.Delivered, emit.Stored, emit.Shed, emit.Refused} {
		if n := c.what[o.String()]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	return strings.Join(parts, ", ")
}
