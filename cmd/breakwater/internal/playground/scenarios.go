package playground

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/readpath"
)

// What a read may meet. Each scenario offers some of them as answers.
const (
	metOther   = "a fresh answer from another replica, at once"
	metSecond  = "a fresh answer from another replica, after a second try"
	metWait    = "a fresh answer from another replica, after a wait of up to two seconds"
	metSame    = "a fresh answer from the broken replica itself"
	metOld     = "an old answer that looks fresh"
	metFlagged = "an old answer that says how old it is"
	metPrimary = "a fresh answer from the primary"
	metError   = "an error"
)

// waited is from when on a read has waited for a node.
const waited = 250 * time.Millisecond

// met is what a read met while a node was broken.
func met(a lab.Answer, broken string) string {
	switch {
	case a.Err != nil:
		return metError
	case a.Stale:
		return metOld
	case a.Flagged:
		return metFlagged
	case a.Source == readpath.FromPrimary:
		return metPrimary
	case a.Node == broken:
		return metSame
	case a.Took >= waited:
		return metWait
	case a.Attempts > 1:
		return metSecond
	}
	return metOther
}

// outage is a scenario of one replica.
type outage struct {
	fault string
	begun string // what was done, in words
	out   string // what it means, once the breaker is open
	// first asks for what the first read meets that is sent to it, else for what one meets once it is open.
	first bool
	lag   bool // it is opened for its lag, which takes a few samples
}

// scenarios are those that the fleet has enough replicas for, each with its answers shuffled.
func (p *Playground) scenarios() []scenario {
	all := p.unshuffled()
	for i := range all {
		shuffle(all[i].Name, all[i].Answers)
	}
	return all
}

// shuffle has the place of an answer tell nothing of it. A scenario's answers stand in the same order each time.
func shuffle(name string, answers []string) {
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(name))                                                                                                  // it never fails
	rand.New(rand.NewPCG(seed.Sum64(), 1)).Shuffle(len(answers), func(i, j int) { answers[i], answers[j] = answers[j], answers[i] }) //nolint:gosec // no secret
}

// unshuffled are they with the usual answer first.
func (p *Playground) unshuffled() []scenario {
	all := []scenario{
		{LabScenario: api.LabScenario{
			Name: "all-lagging", Title: "All replicas lag", Does: "Replay stops on every replica.", Shows: "Critical reads go to the primary within a budget, others get old answers that say so, the least important are dropped; then the replicas are given back class by class.",
			Seconds: 35, Question: "Every replica is late. What will the next read of a product page meet, which may be old if it says so?",
			Answers: []string{metFlagged, metOld, metPrimary, metError},
		}, play: playAllLagging, well: (*stage).replicasWell},
		consumerScenario("slow-consumer", "A consumer becomes slow", "slow", "The mailer needs 900 ms in place of 8.", "It is cut off before others wait for it; what it misses is stored and delivered later.",
			"The mailer has become a hundred times slower. What will a trigger for it meet, a moment later?"),
		consumerScenario("failing-consumer", "A consumer fails", "fail", "The mailer answers every call with an error.", "It is cut off; probes find out when it is well, and what it missed is delivered.",
			"The mailer answers with errors. What will a trigger for it meet, a moment later?"),
	}
	if len(p.config.Fleet.Nodes()) < 3 { // with one replica there is none to go to
		return all
	}
	return append(outages(), all...)
}

func outages() []scenario {
	return []scenario{
		one("one-lagging", "A replica lags", "Replay of r1 stops.", "It goes on answering, with older data each second; reads leave it before an answer is late.", outage{
			fault: "pause", lag: true, begun: "Replay is paused on r1. It answers as before, but what it knows grows old.",
			out: "r1 is out of use, and reads go to the others. Its sampler goes on looking.",
		}, "r1 has fallen behind. What will the next read meet that would have gone to it?", metOther, metOld, metFlagged, metPrimary, metError),
		one("one-dead", "A replica dies", "r1 is killed with all its connections.", "Reads that had one are tried again elsewhere, and nobody dials it until a probe finds it back.", outage{
			fault: "kill", first: true, begun: "r1 is killed, and its connections break.",
			out: "r1 is out of use. No read dials it any more.",
		}, "r1 has just been killed. What will the first read meet that is sent to it?", metSecond, metWait, metError, metOther),
		one("cut-off", "A replica is cut off", "The link from r1 to the primary is cut.", "r1 answers, and believes that it has replayed all there is: only the primary's position shows the lag.", outage{
			fault: "cut", lag: true, begun: "The link from r1 to the primary is cut. r1 itself believes that nothing is wrong.",
			out: "r1 is out of use for its lag, although its own functions tell none.",
		}, "r1 is cut off and does not know it. What will the next read meet that would have gone to it?", metOther, metOld, metSame, metError),
		one("frozen", "A replica freezes", "All processes of r1 are stopped.", "It accepts connections and never answers; a few reads wait for the call timeout, none fails.", outage{
			fault: "freeze", first: true, begun: "r1 is stopped with all its processes. Connections to it stay up, and nothing answers.",
			out: "r1 is out of use: reads no longer wait for it.",
		}, "r1 has just frozen. What will the first read meet that is sent to it?", metWait, metSecond, metError, metOther),
	}
}

func one(name, title, does, shows string, o outage, question string, answers ...string) scenario {
	return scenario{
		LabScenario: api.LabScenario{Name: name, Title: title, Does: does, Shows: shows, Seconds: 25, Question: question, Answers: answers},
		play:        o.play, well: (*stage).replicasWell,
	}
}

// theBroken is the replica that scenarios break.
const theBroken = "r1"

// play breaks r1, waits until it is out of use, mends it, and waits until it is back.
func (o outage) play(ctx context.Context, s *stage) error {
	end := s.measure()
	s.step("%s", o.begun)
	if err := s.breaks(ctx, o.fault, theBroken); err != nil {
		return err
	}
	if o.first {
		s.answer(met(s.firstTo(ctx), theBroken))
	}
	s.until(ctx, openBudget, func() bool { return s.state(theBroken) != breaker.Closed })
	if !o.first {
		s.answer(met(s.read(ctx, readpath.Critical), theBroken))
	}
	s.step("%s", o.out)
	if err := s.wait(ctx, s.p.config.pace.hold); err != nil {
		return err
	}
	s.step("r1 is mended. A probe finds out, and it gets its share back little by little.")
	if err := s.mends(ctx); err != nil {
		return err
	}
	toClose, closed := s.until(ctx, closeBudget, func() bool { return s.state(theBroken) == breaker.Closed })
	if err := s.wait(ctx, s.p.config.pace.settle); err != nil {
		return err
	}
	m := end()
	opened, when := s.trip(theBroken)
	s.unless(longStall, opened, "r1 is taken out of use within "+openBudget.String(), "%s", when)
	s.checkReads(m)
	if o.fault == "freeze" {
		s.unless(slowStall, m.reads.longest <= frozenWait, "no read waits longer than the call timeout of 2 s and half a second", "the longest took %v", round(m.reads.longest))
	}
	s.unless(longStall, closed, "r1 takes reads again within "+closeBudget.String()+" of its mending", "after %v", round(toClose))
	return nil
}

const frozenWait = 2500 * time.Millisecond

// checkReads are the expectations that hold whatever happens to a replica.
func (s *stage) checkReads(m measured) {
	s.check(m.reads.stale == 0 && m.reads.all > 0, "no answer is older than its limit unless it says so", "%d of %d reads", m.reads.stale, m.reads.all)
	s.unless(longStall, m.reads.all == m.reads.good, "no read fails", "%d of %d", m.reads.all-m.reads.good, m.reads.all)
	s.check(m.unfit == 0, "no read is sent to a replica that is out of use or known to be late", "%d", m.unfit)
}

// firstWait is how long the first read that was sent to a broken node may take to end, the call timeout and a second try included.
const firstWait = 4 * time.Second

// firstTo is the first read of the traffic that was sent to the node which has just broken: it took a second try, a wait or an
// error. Where none was, since the node was out of use before, it is one that comes now.
func (s *stage) firstTo(ctx context.Context) lab.Answer {
	s.until(ctx, firstWait, func() bool { return s.p.seen.hit() != nil })
	if a := s.p.seen.hit(); a != nil {
		return *a
	}
	return s.read(ctx, readpath.Degradable)
}

// round is a duration as people want to read it.
func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Millisecond)
}
