package prombreakwater

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// TestStates: one state is 1 and every other one is there as 0; the numbered names say what the breaker does (REQ-O1).
func TestStates(t *testing.T) {
	t.Parallel()
	steps := []struct {
		state breaker.State
		do    func(b *breaker.Breaker)
		want  string // circuit_breaker_state
	}{
		{breaker.Closed, func(*breaker.Breaker) {}, "0"},
		{breaker.Open, func(b *breaker.Breaker) { b.Trip(breaker.Reason{}) }, "2"},
		{breaker.HalfOpen, func(*breaker.Breaker) { time.Sleep(2 * time.Second) }, "1"},
		{breaker.ForcedOpen, func(b *breaker.Breaker) { b.Force(breaker.ForcedOpen, "") }, "2"},
		{breaker.ForcedClosed, func(b *breaker.Breaker) { b.Force(breaker.ForcedClosed, "") }, "0"},
		{breaker.Disabled, func(b *breaker.Breaker) { b.Force(breaker.Disabled, "") }, "0"},
	}
	synctest.Test(t, func(t *testing.T) {
		b, err := breaker.New(breaker.Config{Name: "api"})
		if err != nil {
			t.Fatal(err)
		}
		_, registry := newTestCollector(t, Config{Parts: func() Parts { return Parts{Groups: []Group{Single("http", b)}} }})
		for _, step := range steps {
			step.do(b)
			s := scrapeOf(t, registry)
			for _, state := range states() {
				want := fmt.Sprint(number(state == step.state))
				s.want(t, fmt.Sprintf(`breakwater_breaker_state{name="api",scope="http",state=%q}`, state), want)
			}
			s.want(t, `circuit_breaker_state{name="api"}`, step.want)
		}
	})
}

// TestNumbersOfReplicasAndConsumers: 1 is open there, and half-open 2 (REQ-O1).
func TestNumbersOfReplicasAndConsumers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sick := &target{}
		set := newTestSet(t, replica.Observer{}, &server{name: "r1", replica: true})
		router := newTestRouter(t, emit.Observer{}, sick.consumer("mailer"))
		_, registry := newTestCollector(t, Config{Parts: func() Parts { return Parts{Set: set, Router: router} }})
		for state, want := range map[breaker.State]string{breaker.ForcedOpen: "1", breaker.ForcedClosed: "0"} {
			set.Breaker("r1").Force(state, "")
			router.Breaker("mailer").Force(state, "")
			s := scrapeOf(t, registry)
			s.want(t, `replica_breaker_state{replica="r1"}`, want)
			s.want(t, `breaker_state{consumer="mailer"}`, want)
		}
	})
}

// TestUnknown: what is not known has no number (docs/metrics.md).
func TestUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down, up := &server{name: "r1", replica: true}, &server{name: "r2", replica: true}
		down.failure.Store(new("connection refused"))
		set := newTestSet(t, replica.Observer{}, down, up)
		router := newTestRouter(t, emit.Observer{}, (&target{}).consumer("mailer"))
		_, registry := newTestCollector(t, Config{Parts: func() Parts { return Parts{Set: set, Router: router} }})
		if err := set.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		s := scrapeOf(t, registry)
		s.want(t, `breakwater_replica_staleness_seconds{bound="hi",replica="r1"}`, "+Inf")
		s.wantNone(t, `bound="lo",replica="r1"`)
		s.wantNone(t, `breakwater_poller_last_run_timestamp_seconds{node="r1"}`)
		s.want(t, `breakwater_node_condition{condition="unreachable",node="r1"}`, "1")
		s.want(t, `breakwater_node_condition{condition="ok",node="r1"}`, "0")
		s.want(t, `breakwater_replica_staleness_seconds{bound="lo",replica="r2"}`, "0")
		s.wantNone(t, "breakwater_dead_letter_oldest_age_seconds")
		s.wantNone(t, "breakwater_breaker_call_duration_seconds")
		s.wantNone(t, "replica_breaker_trips_total") // nobody observes them

		// A node that is lost later keeps the time of its newest good sample.
		before := s.series[`breakwater_poller_last_run_timestamp_seconds{node="r2"}`]
		up.failure.Store(new("connection refused"))
		time.Sleep(5 * time.Second)
		if got := scrapeOf(t, registry).series[`breakwater_poller_last_run_timestamp_seconds{node="r2"}`]; got == "" || got < before {
			t.Errorf("after the node was lost its newest good sample is %q, want that of before, %q or a little later", got, before)
		}
	})
}

// TestGone: the series of a node that was removed go with it; one that is added again begins at 0.
func TestGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var parts Parts
		p, registry := newTestCollector(t, Config{Parts: func() Parts { return parts }})
		r1, told := &server{name: "r1", replica: true}, 0
		set := newTestSet(t, p.Replicas(replica.Observer{OnTransition: func(breaker.Transition) { told++ }}), r1)
		parts.Set = set
		set.Breaker("r1").Trip(breaker.Reason{Rule: "lag"})
		set.Breaker("r1").Force(breaker.ForcedClosed, "")
		s := scrapeOf(t, registry)
		s.want(t, `replica_breaker_trips_total{reason="lag",replica="r1"}`, "1")
		s.wantNone(t, `replica_breaker_trips_total{reason="forced"`) // to forced_closed is no trip
		if told != 2 {
			t.Errorf("the observer that was wrapped was told of %d transitions, want 2", told)
		}
		if err := set.Remove("r1"); err != nil {
			t.Fatal(err)
		}
		scrapeOf(t, registry).wantNone(t, `"r1"`)
		if err := set.Add(r1.node()); err != nil {
			t.Fatal(err)
		}
		scrapeOf(t, registry).want(t, `replica_breaker_trips_total{reason="lag",replica="r1"}`, "0")
		parts.Set = nil
		scrapeOf(t, registry).wantNone(t, "replica_")
	})
}

// TestCountersStay: a Router that takes the place of another counts from 0, its series do not (REQ-E14).
func TestCountersStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var parts Parts
		p, registry := newTestCollector(t, Config{Parts: func() Parts { return parts }})
		sick, well := &target{}, &target{}
		sick.failure.Store(new("not today"))
		for range 3 {
			parts.Router = newTestRouter(t, p.Emits(emit.Observer{}), sick.consumer("mailer"), well.consumer("ledger"))
			for range 5 {
				if _, err := parts.Router.Emit(t.Context(), emit.Trigger{Type: "order.paid"}); err != nil {
					t.Fatal(err)
				}
			}
			scrapeOf(t, registry)
		}
		s := scrapeOf(t, registry)
		s.want(t, `breakwater_emit_total{consumer="ledger",outcome="delivered"}`, "15")
		s.want(t, `breakwater_emit_total{consumer="mailer",outcome="stored"}`, "15")
		s.want(t, `breakwater_emitted_total{consumer="mailer"}`, "15")
		s.want(t, `breakwater_emit_duration_seconds_count{consumer="ledger"}`, "15")
		s.want(t, `breakwater_emit_duration_seconds_bucket{consumer="mailer",le="0.012"}`, "15")
		s.want(t, `trip_count{consumer="mailer"}`, "3")
		s.want(t, `breakwater_breaker_transitions_total{from="closed",name="mailer",reason="consecutive_failures",scope="consumer",to="open"}`, "3")
		s.want(t, `breakwater_dead_letters{consumer="mailer",priority="normal"}`, "5")
		s.want(t, `breakwater_dead_letters{consumer="mailer",priority="compliance"}`, "0")
		s.want(t, `fallback_depth{consumer="mailer"}`, "5")

		settings := parts.Router.Config()
		settings.Consumers = settings.Consumers[1:]
		if err := parts.Router.Reconfigure(settings); err != nil {
			t.Fatal(err)
		}
		scrapeOf(t, registry).want(t, `breakwater_dead_letters_absent{consumer="mailer"}`, "5")
		parts.Router = newTestRouter(t, p.Emits(emit.Observer{}), well.consumer("ledger"))
		s = scrapeOf(t, registry)
		s.want(t, `breakwater_emit_total{consumer="ledger",outcome="delivered"}`, "15")
		s.wantNone(t, "mailer")

		// What is gone is forgotten: it begins anew if it comes back.
		parts.Router = newTestRouter(t, p.Emits(emit.Observer{}), sick.consumer("mailer"))
		s = scrapeOf(t, registry)
		s.want(t, `breakwater_emit_total{consumer="mailer",outcome="stored"}`, "0")
		s.wantNone(t, "breakwater_breaker_transitions_total")
		for range 2 {
			parts.Router.Emit(t.Context(), emit.Trigger{Type: "order.paid"})
		}
		scrapeOf(t, registry).want(t, `trip_count{consumer="mailer"}`, "1")
		parts.Router = nil
		scrapeOf(t, registry)
		parts.Router = newTestRouter(t, p.Emits(emit.Observer{}), sick.consumer("mailer"))
		scrapeOf(t, registry).want(t, `trip_count{consumer="mailer"}`, "0")
	})
}

// TestCarry: a count that is read a little ahead, or begins anew at 2^32, does not go back either.
func TestCarry(t *testing.T) {
	t.Parallel()
	c := newCarry()
	for i, step := range []struct {
		owner, v int
		want     float64
	}{{1, 5, 5}, {1, 4, 5}, {1, 7, 7}, {2, 0, 7}, {2, 3, 10}} {
		if got := c.count("x", step.owner, float64(step.v)); got != step.want {
			t.Errorf("step %d: got %v, want %v", i, got, step.want)
		}
	}
	c.countModulo("y", 1, 1<<32-2)
	if got := c.countModulo("y", 1, 3); got != 1<<32+3 {
		t.Errorf("after 2^32: got %v, want %v", got, 1<<32+3)
	}
}

// TestReload: the newest reading is told, and since when the settings hold.
func TestReload(t *testing.T) {
	t.Parallel()
	reload, registry := NewReload(), prometheus.NewPedanticRegistry()
	registry.MustRegister(reload)
	reload.Done(time.Unix(1700000000, 0), nil)
	reload.Done(time.Unix(1700000060, 0), errors.New("trip is -1s: use more than 0"))
	s := scrapeOf(t, registry)
	s.want(t, "breakwater_config_last_reload_successful", "0")
	s.want(t, "breakwater_config_last_reload_success_timestamp_seconds", "1.7e+09")
	s.want(t, `breakwater_config_reloads_total{outcome="failure"}`, "1")
	reload.Done(time.Unix(1700000120, 0), nil)
	scrapeOf(t, registry).want(t, "breakwater_config_last_reload_successful", "1")
}

// TestEmittedIsTheSum: what moves out of the dead letters takes nothing from a counter (REQ-E14).
func TestEmittedIsTheSum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		consumer := (&target{}).consumer("mailer")
		sick := consumer.Sink.(*target)
		sick.failure.Store(new("not today"))
		consumer.Replay.Manual = true
		ring, err := emit.NewRing(emit.RingConfig{Letters: 4, Reserved: -1})
		if err != nil {
			t.Fatal(err)
		}
		consumer.DeadLetters = ring
		router := newTestRouter(t, emit.Observer{}, consumer)
		_, registry := newTestCollector(t, Config{Parts: func() Parts { return Parts{Router: router} }})
		before := map[string]string{}
		look := func() {
			s := scrapeOf(t, registry)
			var sum float64
			for _, outcome := range []string{"delivered", "stored", "shed", "refused"} {
				series := fmt.Sprintf(`breakwater_emit_total{consumer="mailer",outcome=%q}`, outcome)
				if len(s.series[series]) < len(before[series]) || s.series[series] < before[series] {
					t.Errorf("%s went from %s to %s", series, before[series], s.series[series])
				}
				before[series] = s.series[series]
				var v float64
				fmt.Sscan(s.series[series], &v)
				sum += v
			}
			s.want(t, `breakwater_emitted_total{consumer="mailer"}`, fmt.Sprint(sum))
		}
		for _, priority := range []string{"normal", "normal", "idle-ping", "idle-ping", "normal", "idle-ping", "compliance"} { // stored, evicted, shed
			router.Emit(t.Context(), emit.Trigger{Type: "order.paid", Priority: priority})
			look()
		}
		if _, err := router.Discard(t.Context(), "mailer", emit.Filter{Priorities: []int{0}}); err != nil {
			t.Fatal(err)
		}
		look()
		sick.failure.Store(nil)
		if _, err := router.Replay(t.Context(), "mailer", emit.Filter{}); err != nil {
			t.Fatal(err)
		}
		look()
		s := scrapeOf(t, registry)
		for outcome, want := range map[string]string{"delivered": "0", "stored": "6", "shed": "1", "refused": "0"} { // as each emit said
			s.want(t, fmt.Sprintf(`breakwater_emit_total{consumer="mailer",outcome=%q}`, outcome), want)
		}
		s.want(t, `breakwater_dead_letters_discarded_total{consumer="mailer"}`, "1")
		s.want(t, `breakwater_dead_letters_evicted_total{consumer="mailer"}`, "2")
		s.want(t, `breakwater_dead_letters_replayed_total{consumer="mailer"}`, "3")
	})
}

// TestDegraded: the path says that it is degraded until all classes have the replicas back (REQ-D8, REQ-D11).
func TestDegraded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := &nodes{}
		path := newTestPath(t, backend, readpath.Observer{})
		_, registry := newTestCollector(t, Config{Parts: func() Parts { return Parts{Paths: map[string]*readpath.Router{"main": path}} }})
		time.Sleep(time.Second)
		s := scrapeOf(t, registry)
		s.want(t, "read_path_degraded", "1")
		s.want(t, `breakwater_read_path_mode{mode="degraded",path="main"}`, "1")
		backend.eligible.Store(true)
		time.Sleep(61 * time.Second) // two classes of three
		s = scrapeOf(t, registry)
		s.want(t, `breakwater_read_path_degraded{path="main"}`, "1")
		s.want(t, `breakwater_read_path_class_withheld{class="critical",path="main"}`, "0")
		s.want(t, `breakwater_read_path_class_withheld{class="sheddable",path="main"}`, "1")
		time.Sleep(60 * time.Second)
		s = scrapeOf(t, registry)
		s.want(t, "read_path_degraded", "0")
		if s.series[`breakwater_read_path_degraded_seconds_total{path="main"}`] < "90" {
			t.Errorf("degraded for %s s in all, want more than 90", s.series[`breakwater_read_path_degraded_seconds_total{path="main"}`])
		}
	})
}

// TestOverBudget: a critical endpoint is told while it is over the budget, and no longer (REQ-D13).
func TestOverBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var parts Parts
		p, registry := newTestCollector(t, Config{Parts: func() Parts { return parts }})
		backend, told := &nodes{}, 0
		backend.eligible.Store(true)
		path := newTestPath(t, backend, p.Path("main", readpath.Observer{OnOverBudget: func(readpath.OverBudget) { told++ }}))
		parts.Paths = map[string]*readpath.Router{"main": path}
		const series = `breakwater_endpoint_over_budget_ratio{endpoint="price",path="main"}`
		scrapeOf(t, registry).wantNone(t, series)
		for range 60 { // 6 a second, and the budget is 2
			if err := readOnce(t.Context(), path, "price"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(11 * time.Second)
		scrapeOf(t, registry).want(t, series, "3")
		if told == 0 {
			t.Error("the observer that was wrapped was not told")
		}
		time.Sleep(30 * time.Second)
		scrapeOf(t, registry).wantNone(t, series)
	})
}

// TestSets: keys are labels only where that was asked for, and while they are few (REQ-B15).
func TestSets(t *testing.T) {
	t.Parallel()
	p, registry := newTestCollector(t, Config{Parts: func() Parts { return Parts{} }})
	newSet := func(o breaker.Observer) *breaker.Set[string] {
		set, err := breaker.NewSet(breaker.SetConfig[string]{Config: breaker.Config{Observer: o}})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	tenants, hosts := newSet(p.Keyed("tenant", breaker.Observer{})), newSet(p.Breakers("host", breaker.Observer{}))
	p.config.Parts = func() Parts { return Parts{Groups: []Group{Keys("tenant", tenants), NamedKeys("host", hosts, 2)}} }
	for _, set := range []*breaker.Set[string]{tenants, hosts} {
		set.Get("quiet")
		set.Get("customer-17").Trip(breaker.Reason{})
	}
	s := scrapeOf(t, registry)
	s.want(t, `breakwater_breaker_set_breakers{scope="tenant",state="open"}`, "1")
	s.want(t, `breakwater_breaker_set_breakers{scope="tenant",state="closed"}`, "1")
	s.want(t, `breakwater_breaker_transitions_total{from="closed",name="",reason="external",scope="tenant",to="open"}`, "1")
	s.want(t, `breakwater_breaker_state{name="customer-17",scope="host",state="open"}`, "1")
	s.want(t, `breakwater_breaker_transitions_total{from="closed",name="customer-17",reason="external",scope="host",to="open"}`, "1")
	for series := range s.series {
		if strings.Contains(series, "tenant") && strings.Contains(series, "customer-17") {
			t.Errorf("%s holds a key", series)
		}
	}
	hosts.Get("third")
	s = scrapeOf(t, registry)
	s.wantNone(t, "customer-17")
	s.want(t, `breakwater_breaker_set_breakers{scope="host",state="closed"}`, "2")
}

// TestConfig: all faults at once.
func TestConfig(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Timeout: time.Millisecond})
	for _, want := range []string{"Parts is nil", "Timeout is 1ms"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}
