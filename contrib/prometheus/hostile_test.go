package prombreakwater

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

const (
	secret = "s3cr3t-Pa55"
	dsn    = "postgres://reader:" + secret + "@db.internal:5432/orders"
	query  = "SELECT card FROM payments WHERE pin = '" + secret + "'"
)

// TestHostile: whatever names, errors, rules, keys and payloads hold, a scrape works and tells no secret.
func TestHostile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var parts Parts
		p, registry := newTestCollector(t, Config{Parts: func() Parts { return parts }})
		down := &server{name: "host=db password=" + secret, replica: true}
		down.failure.Store(new("cannot connect to " + dsn))
		odd := &server{name: "r\"1\n\xff\\" + strings.Repeat("é", 200), replica: true}
		parts.Set = newTestSet(t, p.Replicas(replica.Observer{}), &server{name: dsn, replica: true}, down, odd)
		if err := parts.Set.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		parts.Set.Breaker(dsn).Trip(breaker.Reason{Rule: query, Detail: dsn})
		sick := &target{}
		sick.failure.Store(new(dsn))
		parts.Router = newTestRouter(t, p.Emits(emit.Observer{}), sick.consumer(dsn), sick.consumer("a"), sick.consumer("a\xff"), sick.consumer("a\xfe"))
		for range 4 {
			parts.Router.Emit(t.Context(), emit.Trigger{Type: query, Key: secret, Subject: secret, Data: []byte(secret)})
		}
		path := newTestPath(t, &nodes{}, p.Path(dsn, readpath.Observer{}))
		parts.Paths = map[string]*readpath.Router{dsn: path}
		readpath.Get(t.Context(), path, readpath.Call{Endpoint: query, Key: secret}, func(context.Context) (int, error) { return 0, errors.New(dsn) })
		same, err := breaker.New(breaker.Config{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		parts.Groups = []Group{Single(dsn, same), Single(query, same, same)}
		s := scrapeOf(t, registry) // an error of Gather ends the test
		for _, part := range []string{secret, "reader", "db.internal", "SELECT card"} {
			if strings.Contains(s.text, part) {
				t.Errorf("the scrape holds %q", part)
			}
		}
		s.want(t, `circuit_breaker_state{name="a"}`, "2") // the consumer's: the other one has its scope before it
		if !strings.Contains(s.text, `replica_breaker_state{replica="r\"1\n`+"\uFFFD"+`\\é`) {
			t.Error("the replica whose name is no UTF-8 is not told")
		}
		if s.series["breakwater_scrape_dropped_series"] == "0" {
			t.Error("no series was dropped, want those of the names that look alike")
		}
		for _, f := range s.families {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if len(l.GetValue()) > maxLabel {
						t.Errorf("%s: a label has %d bytes, want at most %d", f.GetName(), len(l.GetValue()), maxLabel)
					}
				}
			}
		}
	})
}

// TestReasonsAreBounded: callers of Trip cannot make series without end.
func TestReasonsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, registry := newTestCollector(t, Config{Parts: func() Parts { return Parts{} }})
		b, err := breaker.New(breaker.Config{Name: "api", Observer: p.Breakers("http", breaker.Observer{})})
		if err != nil {
			t.Fatal(err)
		}
		p.config.Parts = func() Parts { return Parts{Groups: []Group{Single("http", b)}} }
		for i := range 100 {
			b.Trip(breaker.Reason{Rule: fmt.Sprintf("rule%d", i)})
			b.Force(breaker.Closed, "")
		}
		reasons, opened := map[string]bool{}, 0.0
		for _, f := range scrapeOf(t, registry).families {
			if f.GetName() != "breakwater_breaker_transitions_total" {
				continue
			}
			for _, m := range f.GetMetric() {
				reasons[m.GetLabel()[2].GetValue()] = true
				opened += m.GetCounter().GetValue()
			}
		}
		if len(reasons) > maxReasons+1 || !reasons[other] || opened != 200 {
			t.Errorf("%d reasons (other: %v) of %v transitions, want at most %d with other, of 200", len(reasons), reasons[other], opened, maxReasons+1)
		}
	})
}

// letters is dead letters whose Depths, which a scrape asks, does what it is told.
type letters struct {
	emit.DeadLetters

	depths func()
}

func (l letters) Depths() map[string]emit.Depth {
	l.depths()
	return l.DeadLetters.Depths()
}

func withDepths(t *testing.T, depths func()) emit.Consumer {
	t.Helper()
	ring, err := emit.NewRing(emit.RingConfig{Letters: 4})
	if err != nil {
		t.Fatal(err)
	}
	c := (&target{}).consumer("mailer")
	c.DeadLetters = letters{ring, depths}
	return c
}

// TestPanicAndHang: a part that panics or hangs is missing, all others are told, and a hang holds one goroutine.
func TestPanicAndHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := newTestSet(t, replica.Observer{}, &server{name: "r1", replica: true})
		var do atomic.Pointer[func()] // the lanes ask for depths too
		router := newTestRouter(t, emit.Observer{}, withDepths(t, func() {
			if f := do.Load(); f != nil {
				(*f)()
			}
		}))
		broken := false
		p, registry := newTestCollector(t, Config{Timeout: time.Second, Parts: func() Parts {
			if broken {
				panic(secret)
			}
			return Parts{Set: set, Router: router}
		}})
		look := func(wantUp string) {
			t.Helper()
			s := scrapeOf(t, registry)
			s.want(t, `breakwater_source_up{source="consumers"}`, wantUp)
			s.want(t, `replica_breaker_state{replica="r1"}`, "0")
			if _, told := s.series[`breaker_state{consumer="mailer"}`]; told != (wantUp == "1") {
				t.Errorf("the consumer is told: %v, want it as source_up says, %s", told, wantUp)
			}
		}
		look("1")
		synctest.Wait()
		do.Store(new(func() { panic(secret) }))
		look("0")
		var entered atomic.Int32
		release := make(chan struct{})
		do.Store(new(func() { entered.Add(1); <-release }))
		begin := time.Now()
		look("0")
		look("0")
		if took := time.Since(begin); took != 2*time.Second || entered.Load() != 1 {
			t.Errorf("two scrapes took %v and asked %d times, want 2s and once", took, entered.Load())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close while a part hangs: %v, want that it ran out of time", err)
		}
		close(release)
		if err := p.Close(t.Context()); err != nil {
			t.Errorf("Close after it: %v", err)
		}
		do.Store(nil)
		look("1")
		broken = true
		s := scrapeOf(t, registry)
		s.want(t, `breakwater_source_up{source="parts"}`, "0")
		if strings.Contains(s.text, secret) {
			t.Error("the scrape tells what a panic held")
		}
	})
}
