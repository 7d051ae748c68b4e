package fleettest

import (
	"context"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/fleet"
	"github.com/breakwater-go/breakwater/replica"
)

// T is a test or benchmark.
type T interface {
	Helper()
	Cleanup(f func())
	Context() context.Context
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Patience is how long a test waits for what must come.
const Patience = 30 * time.Second

// Eventually waits until cond holds, for at most 30 s: servers, not timers, decide when.
func Eventually(t T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %v: %s", Patience, what)
		}
	}
}

// Must ends the test if err is one.
func Must(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Broken has the fleet healed after the test.
func Broken(t T, pg *fleet.Fleet) {
	t.Helper()
	t.Cleanup(func() {
		if err := pg.Heal(context.Background()); err != nil {
			t.Errorf("heal: %v", err)
		}
	})
}

// Quick samples often, so that tests wait little. There is no slow start and no jitter.
func Quick() replica.Settings {
	return replica.Settings{
		Trip: 500 * time.Millisecond, Reenter: 200 * time.Millisecond,
		Calm: 600 * time.Millisecond, Fast: 50 * time.Millisecond, PrimaryInterval: 100 * time.Millisecond,
		SampleTimeout: 500 * time.Millisecond, Ramp: -1,
		Open: breaker.Backoff{Base: 300 * time.Millisecond, Max: 2 * time.Second, Jitter: -1},
	}
}

// rarely is how long Blind waits between samples.
const rarely = time.Minute

// Blind samples once a minute, so that only reads can find out what is wrong.
func Blind() replica.Settings {
	s := Quick()
	s.Calm, s.Fast, s.SampleTimeout = rarely, rarely, time.Second
	s.PrimaryInterval = time.Second // three of which a busy machine does not miss: after that all are sampled
	return s
}

// Look has a Set that samples rarely sample now: where the first sample came before the primary's, the next one
// would be that far away.
func Look(t T, set *replica.Set) {
	t.Helper()
	if set.Settings().Calm >= rarely {
		Must(t, set.Refresh(t.Context()))
	}
}

// Usable waits until the named replicas may take reads.
func Usable(t T, set *replica.Set, names ...string) {
	t.Helper()
	for _, n := range names {
		Eventually(t, n+" is fit", func() bool {
			st := Stats(set, n)
			fit := st.Condition == replica.Fit && st.Breaker.State == breaker.Closed
			if !fit {
				Look(t, set)
			}
			return fit
		})
	}
}

// Stats are those of a replica, zero if there is none of that name.
func Stats(set *replica.Set, name string) replica.NodeStats {
	all := set.Stats().Replicas
	for i := range all {
		if all[i].Name == name {
			return all[i]
		}
	}
	return replica.NodeStats{}
}
