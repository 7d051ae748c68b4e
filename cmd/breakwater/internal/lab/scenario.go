package lab

import (
	"context"
	"slices"
	"time"
)

// Scenario is a script of faults with its own expectations.
type Scenario struct {
	Name string
	// Shows is what a person sees in it.
	Shows string

	// Lasts is how long without --for: in a scenario with one fault until that is mended.
	Lasts time.Duration

	shortest time.Duration // the least --for in which it can show what it shows
	replicas int           // the fewest
	classes  *classes      // its reads go by way of the read path; nil: straight to the library
	real     bool          // it needs a real fleet
	play     func(ctx context.Context, r *run, length time.Duration) error
	expect   func(*verdict, *Summary)
}

const (
	before      = 6 * time.Second  // traffic before a fault, for the percentiles
	lagLasts    = 6 * time.Second  // so that an open replica is probed soon after it caught up
	closeBudget = 20 * time.Second // for a mended replica to be re-admitted
	rampOver    = 12 * time.Second // from the close: the ramp takes 10 s
	settled     = 3 * time.Second
)

// Scenarios lists what the lab can play.
func Scenarios() []Scenario {
	return slices.Concat(replicaScenarios(), pathScenarios(), ownWriteScenarios())
}

// NeedsPostgres tells whether a scenario proves nothing on a simulated fleet, which it is refused on.
func NeedsPostgres(scenario string) bool {
	s, ok := find(scenario)
	return ok && s.real
}

// HasClasses tells whether the reads of a scenario go by way of the read path.
func HasClasses(scenario string) bool {
	s, ok := find(scenario)
	return ok && s.classes != nil
}

// replicaScenarios are those of a replica that fails, on the library as it is.
func replicaScenarios() []Scenario {
	return []Scenario{
		{
			Name: "healthy", Shows: "nothing breaks, the primary idles for half of it and switches its WAL segment: no breaker moves",
			Lasts: 60 * time.Second, shortest: 8 * time.Second, replicas: 1, play: playHealthy, expect: expectHealthy,
		},
		{
			Name: "one-lagging", Shows: "replay is paused on one replica and resumed: reads leave it before an answer is late, and come back by a ramp",
			Lasts: before + lagLasts, shortest: before + 3*time.Second, replicas: 2, play: playLagging, expect: expectLagging,
		},
		{
			Name: "one-dead", Shows: "one replica is killed and restarted: no read fails, nobody dials it until a probe finds it back",
			Lasts: before + lagLasts, shortest: before + 3*time.Second, replicas: 2, play: playOne(killed), expect: expectDead,
		},
		{
			Name: "cut-off", Shows: "one replica is cut from its primary and goes on answering as if it had replayed all: it is opened for its lag",
			Lasts: before + lagLasts, shortest: before + 3*time.Second, replicas: 2, play: playOne(linkRefused), expect: expectCutOff,
		},
		{
			Name: "frozen", Shows: "one replica is stopped with all its processes: a few reads wait for the call timeout, none fails",
			Lasts: before + lagLasts, shortest: before + 4*time.Second, replicas: 2, play: playOne(frozen), expect: expectFrozen,
		},
		{
			Name: "flapping", Shows: "one replica's lag comes and goes: it is opened a few times, for longer each time",
			Lasts: 60 * time.Second, shortest: 2*before + 4*time.Second, replicas: 2, play: playFlapping, expect: expectFlapping,
		},
		{
			Name: "random", Shows: "random faults on random replicas and links by --seed: no answer is late and no bound is broken",
			Lasts: 30 * time.Second, shortest: 20 * time.Second, replicas: 1, play: playRandom, expect: expectRandom,
		},
	}
}

// WithClasses reports whether its reads go by way of the read path, each with a class.
func (s Scenario) WithClasses() bool { return s.classes != nil }

func (s Scenario) rate() int {
	if s.classes != nil {
		return s.classes.rate
	}
	return defaultRate
}

// least is the fewest reads a second that can show what it shows.
func (s Scenario) least() int {
	if s.classes != nil {
		return s.classes.least
	}
	return 0
}

func (s Scenario) lasts(asked time.Duration) time.Duration {
	if asked > 0 {
		return asked
	}
	return s.Lasts
}

func playHealthy(ctx context.Context, r *run, length time.Duration) error {
	quarter := length / 4
	if err := Wait(ctx, quarter); err != nil {
		return err
	}
	r.write(writerIdle)
	if err := Wait(ctx, quarter); err != nil {
		return err
	}
	if err := r.switchSegment(ctx); err != nil {
		return err
	}
	if err := Wait(ctx, quarter+settled/10); err != nil {
		return err
	}
	r.write(writerOn)
	return Wait(ctx, quarter)
}

// playOne breaks the first replica for as long as --for leaves, mends it, and waits
// until it takes reads again.
func playOne(f fault) func(context.Context, *run, time.Duration) error {
	return func(ctx context.Context, r *run, length time.Duration) error {
		if err := breakOne(ctx, r, f, length); err != nil {
			return err
		}
		return Wait(ctx, settled)
	}
}

func playLagging(ctx context.Context, r *run, length time.Duration) error {
	if err := breakOne(ctx, r, pauseReplay, length); err != nil {
		return err
	}
	return Wait(ctx, rampOver)
}

func breakOne(ctx context.Context, r *run, f fault, length time.Duration) error {
	node := r.replicas()[0]
	if err := Wait(ctx, before); err != nil {
		return err
	}
	r.enter(during)
	if err := r.begin(ctx, f, node); err != nil {
		return err
	}
	if err := Wait(ctx, length-before); err != nil {
		return err
	}
	if err := r.heal(ctx, f, node); err != nil {
		return err
	}
	r.enter(after)
	r.waitClosed(ctx, node, closeBudget)
	return nil
}

// playFlapping lets four samples in a row be late, then four be in time, for as long
// as the run lasts. Each phase takes four calm intervals.
func playFlapping(ctx context.Context, r *run, length time.Duration) error {
	node, phase := r.replicas()[0], 4*r.inUse.Calm
	if err := Wait(ctx, min(before, length/8)); err != nil {
		return err
	}
	r.enter(during)
	for end := r.now() + length - before - settled; r.now()+phase < end; {
		if err := r.breakFor(ctx, pauseReplay, []string{node}, phase); err != nil {
			return err
		}
		if err := Wait(ctx, min(phase, end-r.now())); err != nil {
			return err
		}
	}
	r.enter(after)
	return Wait(ctx, settled)
}
