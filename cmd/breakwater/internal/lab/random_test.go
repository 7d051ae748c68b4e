package lab

import (
	"reflect"
	"testing"
	"time"
)

var threeReplicas = []string{"r1", "r2", "r3"}

func TestThePlanIsTheSeeds(t *testing.T) {
	a, b := makePlan(7, threeReplicas, 2*time.Minute), makePlan(7, threeReplicas, 2*time.Minute)
	if got, want := describePlan(a), describePlan(b); !reflect.DeepEqual(got, want) {
		t.Errorf("the same seed: got %v, then %v", got, want)
	}
	if reflect.DeepEqual(describePlan(a), describePlan(makePlan(8, threeReplicas, 2*time.Minute))) {
		t.Error("another seed: got the same plan")
	}
}

func describePlan(p plan) (all []string) {
	for _, s := range p.steps {
		all = append(all, s.String())
	}
	for _, w := range p.writer {
		all = append(all, w.at.String()+" "+w.mode.String())
	}
	return all
}

// In every plan a node has one fault at a time, all end before the run does, and the
// writer goes through all its modes; over the seeds every fault hits every node.
func TestPlansAreSound(t *testing.T) {
	hit := map[string]bool{}
	for seed := range uint64(200) {
		for _, length := range []time.Duration{20 * time.Second, 30 * time.Second, 2 * time.Minute} {
			p := makePlan(seed, threeReplicas, length)
			if len(p.steps) < 3 {
				t.Errorf("seed %d, %v: got %d faults, want 3 or more", seed, length, len(p.steps))
			}
			checkSteps(t, seed, length, p, hit)
			checkWriter(t, seed, length, p)
		}
	}
	if got, want := len(hit), len(faults)*len(threeReplicas); got != want {
		t.Errorf("got %d pairs of fault and node over all seeds, want %d: %v", got, want, hit)
	}
}

func checkSteps(t *testing.T, seed uint64, length time.Duration, p plan, hit map[string]bool) {
	t.Helper()
	busy := map[string]time.Duration{}
	for _, s := range p.steps {
		hit[s.fault.name+" "+s.node] = true
		if s.at < busy[s.node] {
			t.Errorf("seed %d: %v begins while the fault before it lasts", seed, s)
		}
		busy[s.node] = s.at + s.lasts
		if s.at < planQuiet || s.at+s.lasts > length-planQuiet {
			t.Errorf("seed %d, %v: %v does not lie in the run's middle", seed, length, s)
		}
	}
}

func checkWriter(t *testing.T, seed uint64, length time.Duration, p plan) {
	t.Helper()
	lasts := map[writerMode]time.Duration{}
	for i, w := range p.writer {
		end := length
		if i+1 < len(p.writer) {
			end = p.writer[i+1].at
		}
		lasts[w.mode] += end - w.at
	}
	for _, m := range writerModes {
		if lasts[m] < 3*time.Second {
			t.Errorf("seed %d, %v: %v lasts %v, want 3 s or more", seed, length, m, lasts[m])
		}
	}
}
