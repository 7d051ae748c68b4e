package lab

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/limit"
	"github.com/breakwater-go/breakwater/readpath"
)

// pathExpectations can each fail.
var pathExpectations = []expectation{
	{"all-lagging", func(s *Summary) { s.BudgetViolations = 1 }, "budget_violations is 1, expected at most 0"},
	{"all-dead", func(s *Summary) { s.CriticalStale = 1 }, "critical_stale is 1, expected at most 0"},
	{"relapse", func(s *Summary) { s.AgeViolations = 1 }, "age_violations is 1, expected at most 0"},
	{"cold-cache", func(s *Summary) { s.RefusedWithoutRetryAfter = 1 }, "refused_without_retry_after is 1, expected at most 0"},
	{"primary-restart", without(readpath.Sheddable, BySource{Primary: 1}), "by_class.sheddable.primary is 1, expected at most 0"},
	{"last-standing", func(s *Summary) { s.Errors = 901 }, "errors is 901 and refused is 900, expected the same"},
	{"own-writes", func(s *Summary) { s.PrimaryConnectionsMax = 22 }, "primary_connections_max is 22, expected at most 21"},
	{"all-lagging", func(s *Summary) { s.RefusalP999 = new(5.1) }, "refusal_p999_ms is 5.1, expected at most 5"},
	{"relapse", func(s *Summary) { s.RefusalP999 = new(5.1) }, "refusal_p999_ms is 5.1, expected at most 5"},
	{"cold-cache", func(s *Summary) { s.RefusalP999 = nil }, "refusal_p999_ms is null"},

	{"all-lagging", without(readpath.Critical, BySource{Primary: 199, Failed: 1}), "by_class.critical.primary is 199, expected at least 200"},
	{"all-dead", without(readpath.Critical, BySource{Primary: 300}), "by_class.critical.failed is 0, expected at least 1"},
	{"relapse", without(readpath.Degradable, BySource{Cache: 99}), "by_class.degradable.cache is 99, expected at least 100"},
	{"all-dead", without(readpath.Sheddable, BySource{Shed: 99}), "by_class.sheddable.shed is 99, expected at least 100"},
	{"all-lagging", without(readpath.Degradable, BySource{Cache: 200, Failed: 1}), "by_class.degradable.failed is 1, expected at most 0"},
	{"all-lagging", func(s *Summary) { s.WriterP50During = new(1.51) }, "writer_p50_during_ms is 1.51, expected at most 1.5"},
	{"all-dead", func(s *Summary) { s.WriterP50During = nil }, "writer_p50_before_ms or writer_p50_during_ms is null"},

	{"all-lagging", func(s *Summary) { s.GoroutinesLast = 0 }, "goroutines_last_quarter is 0, expected at least 1"},
	{"all-dead", func(s *Summary) { s.GoroutinesLast = 141 }, "goroutines_last_quarter is 141, expected at most 140"},
	{"all-lagging", func(s *Summary) { s.HeapLast = 7.7 }, "heap_live_last_quarter_mb is 7.7, expected at most 7.6"},

	{"all-lagging", func(s *Summary) { s.Modes = inOrder[:3] }, "modes is [\"degraded\""},
	{"relapse", func(s *Summary) { s.Modes = inOrder }, "modes is [\"degraded\""},
	{"cold-cache", func(s *Summary) { s.Modes = nil }, "modes is []"},
	{"all-dead", func(s *Summary) { slices.Reverse(s.Resumed) }, "resumed is [sheddable degradable critical]"},
	{"all-lagging", func(s *Summary) { s.RecoveryGaps = s.RecoveryGaps[:1] }, "recovery_gaps_ms is [3000], expected 2"},
	{"relapse", func(s *Summary) { s.RecoveryGaps[1] = 2999 }, "recovery_gaps_ms[1] is 2999, expected at least 3000"},
	{"all-lagging", func(s *Summary) { s.OpenReason = "unreachable" }, `open_reason is "unreachable", expected "lag"`},

	{"cold-cache", func(s *Summary) { s.LoadersMax = 2 }, "loaders_max_per_key is 2, expected 1"},
	{"cold-cache", func(s *Summary) { s.CrowdWait = 351 }, "crowd_wait_max_ms is 351, expected at most 350"},
	{"cold-cache", without(readpath.Degradable, BySource{Default: 200}), "by_class.degradable.cache is 0, expected at least 100"},
	{"cold-cache", without(readpath.Degradable, BySource{Cache: 200}), "by_class.degradable.default is 0, expected at least 200"},

	{"primary-restart", func(s *Summary) { s.Flagged = 99 }, "flagged is 99, expected at least 100"},
	{"primary-restart", func(s *Summary) { s.DegradedMS = 1 }, "degraded_ms is 1, expected at most 0"},
	{"primary-restart", without(readpath.Critical, BySource{}), "by_class.critical.failed is 0, expected at least 1"},
	{"primary-restart", without(readpath.Degradable, BySource{Failed: 1}), "by_class.degradable.failed is 1, expected at most 0"},
	{"primary-restart", without(readpath.Sheddable, BySource{Shed: 1}), "by_class.sheddable.shed is 1, expected at most 0"},

	{"last-standing", func(s *Summary) { s.InFlightMax = 5 }, "in_flight_max is 5, expected at most 4"},
	{"last-standing", func(s *Summary) { s.DegradedMS = 1 }, "degraded_ms is 1, expected at most 0"},
	{"last-standing", func(s *Summary) { s.LastNodeTransitions = 1 }, "last_node_transitions is 1, expected at most 0"},
	{"last-standing", without(readpath.Critical, BySource{Primary: 9}), "by_class.critical.primary is 9, expected at least 10"},
	{"last-standing", without(readpath.Degradable, BySource{Cache: 9}), "by_class.degradable.cache is 9, expected at least 10"},
	{"last-standing", without(readpath.Sheddable, BySource{Shed: 9}), "by_class.sheddable.shed is 9, expected at least 10"},

	{"own-writes", func(s *Summary) { s.OwnReads = 999 }, "own_reads is 999, expected 1000"},
	{"own-writes", func(s *Summary) { s.OwnMisses = 1 }, "own_misses is 1, expected at most 0"},
	{"own-writes", func(s *Summary) { s.OwnByReplica = 499 }, "own_by_replica is 499, expected at least 500"},
}

// What a bucket of the library admits is never over its budget, and one read more than that is (REQ-D3).
func TestOverBudget(t *testing.T) {
	const rate, burst = 200, 20
	random := rand.New(rand.NewPCG(1, 2))
	bucket, err := limit.NewBucket(limit.BucketConfig{Rate: rate, Burst: burst})
	if err != nil {
		t.Fatal(err)
	}
	var reads []fallback
	began := time.Now()
	for len(reads) < 100 {
		begin := time.Since(began)
		if bucket.Allow() {
			reads = append(reads, fallback{begin, time.Since(began)})
		}
	}
	random.Shuffle(len(reads), func(i, j int) { reads[i], reads[j] = reads[j], reads[i] })
	violations, most := overBudget(reads, rate, burst)
	if violations != 0 || most == nil || *most > burst || *most < burst-1 {
		t.Errorf("of a bucket: got %d violations, the most %v; want none, and about %d", violations, most, burst)
	}
	first := reads[0]
	for range 2 {
		reads = append(reads, first)
	}
	if violations, _ := overBudget(reads, rate, burst); violations == 0 {
		t.Error("with two reads more than the burst at an instant: got no violation")
	}
	if violations, most := overBudget(nil, rate, burst); violations != 0 || most != nil {
		t.Errorf("of nothing: got %d, %v", violations, most)
	}
}

// A read that took long to be seen on its way is not held against the budget: its token may have been drawn at its begin.
func TestOverBudgetCountsWhatIsCertain(t *testing.T) {
	stalled := []fallback{{0, sec}, {500 * msec, sec}, {sec, sec}}
	if violations, _ := overBudget(stalled, 1, 2); violations != 0 {
		t.Errorf("got %d violations, want none", violations)
	}
	if violations, _ := overBudget([]fallback{{sec, sec}, {sec, sec}, {sec, sec}}, 1, 2); violations == 0 {
		t.Errorf("three at an instant with a burst of 2: got none")
	}
}

// The classes' answers after an outage are counted from reads that began in it.
func TestResumed(t *testing.T) {
	r := fixture()
	at := func(c readpath.Class, begin time.Duration) {
		a := from("r1", 20, begin, begin)
		a.class = c
		r.read(a)
	}
	at(readpath.Sheddable, 2*sec)
	r.stepped(readpath.ModeChange{From: readpath.Normal, To: readpath.Degraded}, 3*sec)
	at(readpath.Degradable, 3*sec) // it began before
	at(readpath.Critical, 5*sec)
	r.stepped(readpath.ModeChange{From: readpath.Degraded, To: readpath.Recovering, Given: []readpath.Class{readpath.Critical}}, 5*sec)
	at(readpath.Degradable, 8*sec)
	both := []readpath.Class{readpath.Critical, readpath.Degradable}
	r.stepped(readpath.ModeChange{From: readpath.Recovering, To: readpath.Recovering, Given: both}, 8500*msec)
	s := r.summary()
	if !slices.Equal(s.Resumed, both) {
		t.Errorf("resumed: got %v, want %v", s.Resumed, both)
	}
	if want := inOrder[:3]; !slices.Equal(s.Modes, want) {
		t.Errorf("modes: got %q, want %q", s.Modes, want)
	}
	if want := []float64{3500}; !slices.Equal(s.RecoveryGaps, want) {
		t.Errorf("recovery_gaps_ms: got %v, want %v", s.RecoveryGaps, want)
	}
	if got := s.ByClass[readpath.Critical].Replica; got != 1 {
		t.Errorf("by_class.critical.replica: got %d, want 1", got)
	}
}

// What an answer says of its age is judged against the truth; a critical one may not be old at all.
func TestAgesOfClasses(t *testing.T) {
	tests := []struct {
		name                                 string
		change                               func(*answer)
		staleUnflagged, violations, critical int
	}{
		{"cache, honest", func(a *answer) { a.source, a.flagged, a.age = readpath.FromCache, true, 6*sec }, 0, 0, 0},
		{"cache, older than it says", func(a *answer) { a.source, a.flagged, a.age = readpath.FromCache, true, 5*sec }, 0, 1, 0},
		{"cache, in silence", func(a *answer) { a.source, a.age = readpath.FromCache, 6*sec }, 1, 0, 0},
		{"critical, flagged", func(a *answer) { a.class, a.flagged, a.age = readpath.Critical, true, 6*sec }, 0, 0, 1},
		{"critical, over its bound", func(a *answer) { a.class, a.limit, a.age = readpath.Critical, 2*sec, 6*sec }, 1, 0, 1},
		{"primary, old", func(a *answer) { a.source = readpath.FromPrimary }, 1, 0, 0},
		{"default", func(a *answer) { a.source, a.value, a.flagged = readpath.FromDefault, 0, true }, 0, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := fixture()
			a := from("r1", 4, 10500*msec, 10500*msec) // commit 5 was acknowledged 5.5 s before
			a.class = readpath.Degradable
			tt.change(&a)
			r.read(a)
			s := r.summary()
			if s.StaleUnflagged != tt.staleUnflagged || s.AgeViolations != tt.violations || s.CriticalStale != tt.critical {
				t.Errorf("stale_unflagged, age_violations, critical_stale: got %d, %d, %d, want %d, %d, %d",
					s.StaleUnflagged, s.AgeViolations, s.CriticalStale, tt.staleUnflagged, tt.violations, tt.critical)
			}
		})
	}
}

// It finds what looking at each interval finds.
func TestOverBudgetOfEachInterval(t *testing.T) {
	const rate = 100
	random := rand.New(rand.NewPCG(3, 4))
	for n := 1; n < 60; n++ {
		var reads []fallback
		for range n {
			begin := time.Duration(random.IntN(300)) * msec
			reads = append(reads, fallback{begin, begin + time.Duration(random.IntN(50))*msec})
		}
		want := math.Inf(-1)
		for _, first := range reads {
			for _, last := range reads {
				count := 0.0
				for _, r := range reads {
					if r.begin >= first.begin && r.at <= last.at {
						count++
					}
				}
				if last.begin >= first.begin {
					want = max(want, count-rate*(last.at-first.begin).Seconds())
				}
			}
		}
		violations, got := overBudget(reads, rate, want-0.5)
		if math.Abs(*got-want) > 1e-6 || violations == 0 {
			t.Fatalf("%d reads: got %v and %d violations, want %v and some", n, *got, violations, want)
		}
		if violations, _ := overBudget(reads, rate, want+1e-6); violations != 0 {
			t.Fatalf("%d reads: got %d violations, want none", n, violations)
		}
	}
}
