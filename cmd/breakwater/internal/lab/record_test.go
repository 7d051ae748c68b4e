package lab

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/truth"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

const (
	msec = time.Millisecond
	sec  = time.Second
)

// fixture has commits 1, 2, … acknowledged at 1 s, 2 s, … up to 20 s.
func fixture() *recorder {
	acks := &truth.Acks{}
	for n := int64(1); n <= 20; n++ {
		acks.Add(n, time.Duration(n)*sec)
	}
	r := newRecorder(acks, true)
	r.judgeBy(replica.Settings{Trip: 500 * msec, MaxStaleness: 2250 * msec})
	return r
}

func from(node string, value int64, begin, pickedAt time.Duration) answer {
	return answer{phase: calm, begin: begin, end: begin + msec, value: value, node: node, pickedAt: pickedAt, source: readpath.FromReplica}
}

// The age of an answer is judged against the limit under which it was sent.
func TestStaleUnflagged(t *testing.T) {
	tests := []struct {
		name    string
		a       answer
		stale   int
		maxAged float64
	}{
		{"newest", from("r1", 10, 10500*msec, 10*sec), 0, 0},
		{"one commit behind", from("r1", 9, 10500*msec, 10*sec), 0, 500},
		{"at the limit", from("r1", 7, 10250*msec, 10*sec), 0, 2250},
		{"over the limit", from("r1", 7, 10251*msec, 10*sec), 1, 2251},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := fixture()
			r.read(tt.a)
			s := r.summary()
			if s.StaleUnflagged != tt.stale || s.MaxStaleness != tt.maxAged {
				t.Errorf("stale_unflagged, max: got %d, %v, want %d, %v", s.StaleUnflagged, s.MaxStaleness, tt.stale, tt.maxAged)
			}
		})
	}
}

// An answer that was told to be unverified may be old: it is flagged.
func TestFlaggedAnswersAreNotStale(t *testing.T) {
	r := fixture()
	a := from("r1", 1, 15*sec, 15*sec)
	a.flagged = true
	r.read(a)
	if s := r.summary(); s.StaleUnflagged != 0 || s.MaxStaleness != 0 {
		t.Errorf("stale_unflagged, max: got %d, %v, want 0, 0", s.StaleUnflagged, s.MaxStaleness)
	}
}

// A read counts as sent to a late replica if the newest sample published before the
// pick was over the trip threshold (REQ-R4), or failed (REQ-R3).
func TestLateReplicaReads(t *testing.T) {
	r := fixture()
	r.sample(replica.Sample{Node: "r1", Lo: 500 * msec}, 1*sec)
	r.sample(replica.Sample{Node: "r1", Lo: 501 * msec}, 2*sec)
	r.sample(replica.Sample{Node: "r1", Lo: 0}, 3*sec)
	r.sample(replica.Sample{Node: "r1", Err: errors.New("no answer")}, 4*sec)
	tests := []struct {
		picked time.Duration
		want   int
	}{
		{500 * msec, 0}, // before any sample
		{1500 * msec, 0},
		{2 * sec, 0},     // the pick came first, or at the same instant
		{2005 * msec, 0}, // published after the read had begun: the pick may have come first
		{2500 * msec, 1},
		{3005 * msec, 0},
		{3500 * msec, 0},
		{4500 * msec, 1},
	}
	for _, tt := range tests {
		before := r.summary().LateReplicaReads
		r.read(from("r1", 20, tt.picked-10*msec, tt.picked))
		if got := r.summary().LateReplicaReads - before; got != tt.want {
			t.Errorf("picked at %v: got %d late reads, want %d", tt.picked, got, tt.want)
		}
		r.read(from("r2", 20, 5*sec, tt.picked))
	}
	if got := r.summary().LateReplicaReads; got != 2 {
		t.Errorf("reads of r2 counted as late: got %d in all, want 2", got)
	}
}

func move(r *recorder, node string, from, to breaker.State, at, period time.Duration, rule string) {
	r.transition(breaker.Transition{
		Name: node, From: from, To: to, OpenPeriod: period, Reason: breaker.Reason{Rule: rule},
	}, at)
}

// Reads and dials to a replica whose breaker does not admit them are counted (REQ-R7).
func TestReadsAndDialsWhileOpen(t *testing.T) {
	r := fixture()
	r.dialled("r1")
	move(r, "r1", breaker.Closed, breaker.Open, 2*sec, 2*sec, "lag")
	r.dialled("r1")
	r.dialled("r2")
	r.read(from("r1", 20, 1890*msec, 1900*msec))
	r.read(from("r1", 20, 2090*msec, 2100*msec))
	move(r, "r1", breaker.Open, breaker.HalfOpen, 4*sec, 2*sec, "")
	r.dialled("r1")
	r.read(from("r1", 20, 3990*msec, 4500*msec))
	move(r, "r1", breaker.HalfOpen, breaker.Closed, 5*sec, 2*sec, "recovered")
	r.dialled("r1")
	r.read(from("r1", 20, 4900*msec, 5500*msec))
	s := r.summary()
	if s.OpenReplicaReads != 2 {
		t.Errorf("open_replica_reads: got %d, want 2", s.OpenReplicaReads)
	}
	if s.DialsAfterOpen != 2 {
		t.Errorf("request_dials_after_open: got %d, want 2", s.DialsAfterOpen)
	}
}

// Of a fault of lag, time_to_open counts from when the true lag passed the threshold.
func TestTimeToOpenAndClose(t *testing.T) {
	r := fixture()
	r.faultBegan(pauseReplay, "r1", 3900*msec, 0, 4) // commit 4, acknowledged at 4 s, is the first that it lacks
	move(r, "r2", breaker.Closed, breaker.Open, 4*sec, sec, "another node")
	move(r, "r1", breaker.Closed, breaker.Open, 5200*msec, 2*sec, "lag")
	move(r, "r1", breaker.Open, breaker.HalfOpen, 7200*msec, 2*sec, "")
	r.probed("r1", 7210*msec)
	move(r, "r1", breaker.HalfOpen, breaker.Open, 7300*msec, 4*sec, "lag")
	r.faultHealed("r1", 9*sec)
	move(r, "r1", breaker.Open, breaker.HalfOpen, 11300*msec, 4*sec, "")
	r.probed("r1", 11400*msec)
	move(r, "r1", breaker.HalfOpen, breaker.Closed, 11500*msec, 4*sec, "recovered")
	s := r.summary()
	if s.TimeToOpen == nil || *s.TimeToOpen != 700 || s.OpenReason != "lag" {
		t.Errorf("time_to_open_ms, reason: got %v, %q, want 700, lag", s.TimeToOpen, s.OpenReason)
	}
	if s.TimeToClose == nil || *s.TimeToClose != 2500 {
		t.Errorf("time_to_close_ms: got %v, want 2500", s.TimeToClose)
	}
	if s.ProbesToClose == nil || *s.ProbesToClose != 1 {
		t.Errorf("probes_to_close: got %v, want 1", s.ProbesToClose)
	}
	if s.ClosedToOpen != 2 || len(s.OpenPeriods) != 3 || s.Transitions != 6 {
		t.Errorf("closed_to_open, open_periods_ms, transitions: got %d, %v, %d, want 2, three, 6", s.ClosedToOpen, s.OpenPeriods, s.Transitions)
	}
}

// A fault other than lag counts from its begin.
func TestTimeToOpenOfADeadNode(t *testing.T) {
	r := fixture()
	r.faultBegan(killed, "r1", 4*sec, 2, 0)
	move(r, "r1", breaker.Closed, breaker.Open, 4050*msec, 2*sec, "fatal")
	s := r.summary()
	if s.TimeToOpen == nil || *s.TimeToOpen != 50 || s.InFlightAtFault != 2 {
		t.Errorf("time_to_open_ms, in_flight_at_fault: got %v, %d, want 50, 2", s.TimeToOpen, s.InFlightAtFault)
	}
	if s.TimeToClose != nil {
		t.Errorf("time_to_close_ms: got %v, want null", *s.TimeToClose)
	}
}

func TestRampShares(t *testing.T) {
	r := fixture()
	r.faultBegan(killed, "r1", 1*sec, 0, 0)
	r.faultHealed("r1", 2*sec)
	move(r, "r1", breaker.HalfOpen, breaker.Closed, 3*sec, 0, "recovered")
	for at := 3 * sec; at < 15*sec; at += 25 * msec { // r1 gets a tenth, later half
		every := 10
		if at > 10*sec {
			every = 2
		}
		node := "r2"
		if int(at/(25*msec))%every == 0 {
			node = "r1"
		}
		r.read(from(node, 20, at, at))
	}
	s := r.summary()
	if s.RampShareFirst == nil || *s.RampShareFirst < 0.05 || *s.RampShareFirst > 0.15 {
		t.Errorf("ramp_share_first: got %v, want about 0.1", *s.RampShareFirst)
	}
	if s.RampShareLast == nil || *s.RampShareLast < 0.45 || *s.RampShareLast > 0.55 {
		t.Errorf("ramp_share_last: got %v, want about 0.5", *s.RampShareLast)
	}
}

// A bound holds if the true staleness is at most Hi.
func TestBounds(t *testing.T) {
	r := fixture()
	r.checked(0, 100*msec)
	r.checked(100*msec, 100*msec)
	r.checked(101*msec, 100*msec)
	s := r.summary()
	if s.BoundSamples != 3 || s.BoundViolations != 1 || *s.BoundWorst != 1 {
		t.Errorf("bound_samples, _violations, _worst_ms: got %d, %d, %v, want 3, 1, 1", s.BoundSamples, s.BoundViolations, *s.BoundWorst)
	}
}

// A read waits for a node if it was tried on a second one or was on the one that was hit;
// what the machine is late with is told by max_wait_ms alone.
func TestWaited(t *testing.T) {
	r := fixture()
	r.faultBegan(frozen, "r1", 1*sec, 0, 0)
	for _, tt := range []struct {
		node     string
		attempts int
		took     time.Duration
		want     int
	}{
		{"r2", 2, 249 * msec, 0},
		{"r2", 2, 250 * msec, 1},
		{"r1", 1, 250 * msec, 1},
		{"r2", 1, 3 * sec, 0},
	} {
		before := r.summary().Waited
		a := from(tt.node, 20, 5*sec, 5*sec)
		a.attempts, a.end = tt.attempts, a.begin+tt.took
		r.read(a)
		if got := r.summary().Waited - before; got != tt.want {
			t.Errorf("%s, %d attempts, %v: got %d, want %d", tt.node, tt.attempts, tt.took, got, tt.want)
		}
	}
	if got := r.summary().MaxWait; got != 3000 {
		t.Errorf("max_wait_ms: got %v, want 3000", got)
	}
}

func TestErrorsAndRefusals(t *testing.T) {
	r := fixture()
	bad := from("", 0, 5*sec, 0)
	bad.err = errors.New("first of them")
	r.read(bad)
	bad.err, bad.refused = replica.ErrNoReplica, true
	r.read(bad)
	s := r.summary()
	if s.Errors != 2 || s.Refused != 1 || s.BySource.Failed != 2 || s.Reads != 2 || s.StaleUnflagged != 0 {
		t.Errorf("errors, refused, failed, reads, stale: got %d, %d, %d, %d, %d, want 2, 1, 2, 2, 0",
			s.Errors, s.Refused, s.BySource.Failed, s.Reads, s.StaleUnflagged)
	}
	if s.FirstError != "first of them" || s.RefusalP999 == nil {
		t.Errorf("first_error, refusal_p999_ms: got %q, %v", s.FirstError, s.RefusalP999)
	}
}

func TestPercentilesByPhase(t *testing.T) {
	r := fixture()
	for i := 1; i <= 100; i++ {
		a := from("r1", 20, 5*sec, 5*sec)
		a.end = a.begin + time.Duration(i)*msec
		r.read(a)
		a.phase, a.end = during, a.begin+time.Duration(2*i)*msec
		r.read(a)
	}
	s := r.summary()
	for _, tt := range []struct {
		field string
		got   *float64
		want  float64
	}{
		{"p50_before_ms", s.P50Before, 50},
		{"p95_before_ms", s.P95Before, 95},
		{"p99_before_ms", s.P99Before, 99},
		{"p50_during_ms", s.P50During, 100},
		{"p95_during_ms", s.P95During, 190},
		{"p99_during_ms", s.P99During, 198},
	} {
		if tt.got == nil || *tt.got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.field, tt.got, tt.want)
		}
	}
	if s.P50After != nil {
		t.Errorf("p50_after_ms: got %v, want null", *s.P50After)
	}
	if s.MaxWait != 200 {
		t.Errorf("max_wait_ms: got %v, want 200", s.MaxWait)
	}
}

// The primary's reads are counted a second; writing stops count as idle time.
func TestSecondsAndIdleTime(t *testing.T) {
	r := fixture()
	a := from("primary", 20, 5*sec, 5*sec)
	a.source = readpath.FromPrimary
	r.read(a)
	r.read(a)
	r.endSecond()
	r.read(a)
	r.endSecond()
	r.idle(1*sec, true)
	r.idle(3*sec, false)
	s := r.summary()
	if s.PrimaryReadsMax != 2 || s.BySource.Primary != 3 || s.WriterIdle != 2000 {
		t.Errorf("primary_reads_max_per_s, primary, writer_idle_ms: got %d, %d, %v, want 2, 3, 2000",
			s.PrimaryReadsMax, s.BySource.Primary, s.WriterIdle)
	}
}

// Memory is bounded, and a sample beyond the bound stays representative.
func TestDurationsAreBounded(t *testing.T) {
	var d Durations
	for i := range 4 * maxKept {
		d.Add(time.Duration(i%1000) * msec)
	}
	if len(d.kept) != maxKept || d.seen != 4*maxKept {
		t.Fatalf("kept, seen: got %d, %d, want %d, %d", len(d.kept), d.seen, maxKept, 4*maxKept)
	}
	if p := *d.Percentiles(0.5)[0]; p < 480 || p > 520 {
		t.Errorf("median: got %v ms, want about 500", p)
	}
}

func TestOptionsTellEveryFaultAtOnce(t *testing.T) {
	err := Options{Scenario: "nonesuch", Replicas: 99, Rate: -1, For: -time.Second}.Check()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{"--replicas 99", "--rate -1", "--for -1s", `--scenario "nonesuch"`, "one-lagging", "random"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
	for _, o := range []Options{
		{Scenario: "one-lagging", Replicas: 1},
		{Scenario: "flapping", Replicas: 3, For: time.Second},
	} {
		if o.Check() == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
	for _, name := range append(Names(), "") {
		if err := (Options{Scenario: name, Replicas: 3}).Check(); err != nil {
			t.Errorf("scenario %q with its defaults: %v", name, err)
		}
	}
}
