package readpath

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// REQ-D8, REQ-D11: critical first, then degradable, then sheddable, each after the sustained time
// counted anew; a relapse starts over; the time degraded is added up.
func TestRecoveryInOrder(t *testing.T) {
	var steps []string
	began := time.Time{}
	inBubble(t, func(c *Config) {
		c.Observer.OnMode = func(m ModeChange) {
			if began.IsZero() {
				began = m.At
			}
			steps = append(steps, fmt.Sprintf("%.1f %v→%v %v", m.At.Sub(began).Seconds(), m.From, m.To, m.Given))
		}
	}, func(t bubble) {
		r, f := t.r, t.f
		f.eligible.Store(false)
		_, _ = get(t, r, f, "related", "") // the read finds it out, before the watcher
		wantMode(t, r, Normal)             // a moment is none
		after(confirm)
		wantMode(t, r, Degraded)
		after(2 * time.Second)
		f.eligible.Store(true)
		if _, err := get(t, r, f, "related", ""); !errors.Is(err, ErrShed) {
			t.Errorf("sheddable, just eligible: got %v", err)
		}
		after(3500 * time.Millisecond) // critical is back
		for name, want := range map[string]Source{"balance": FromReplica, "product": FromPrimary} {
			if res, err := get(t, r, f, name, ""); err != nil || res.Source != want {
				t.Errorf("%s: got %+v, %v; want %v", name, res, err, want)
			}
		}
		after(3 * time.Second) // degradable too
		f.eligible.Store(false)
		after(time.Second) // relapse
		wantMode(t, r, Degraded)
		f.eligible.Store(true)
		after(10 * time.Second)
		wantMode(t, r, Normal)
		if got, want := r.Stats().DegradedFor.Round(time.Second), 19*time.Second; got != want {
			t.Errorf("degraded for %v, want about %v", got, want)
		}
	})
	want := []string{
		"0.0 normal→degraded []",
		"5.1 degraded→recovering [critical]",
		"8.1 recovering→recovering [critical degradable]",
		"8.7 recovering→degraded []",
		"12.6 degraded→recovering [critical]",
		"15.6 recovering→recovering [critical degradable]",
		"18.6 recovering→normal [critical degradable sheddable]",
	}
	if fmt.Sprint(steps) != fmt.Sprint(want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(steps, "\n"), strings.Join(want, "\n"))
	}
}

// A moment without an eligible replica, as after a process stood still, withholds nothing for the sustained time.
func TestMomentIsNoOutage(t *testing.T) {
	inBubble(t, nil, func(t bubble) {
		t.f.eligible.Store(false)
		if res, err := get(t, t.r, t.f, "balance", ""); err != nil || res.Source != FromPrimary {
			t.Errorf("in the moment: got %+v, %v; want the primary", res, err)
		}
		after(confirm / 2)
		t.f.eligible.Store(true)
		after(time.Second)
		wantMode(t, t.r, Normal)
		if got := t.r.Stats().DegradedFor; got != 0 {
			t.Errorf("degraded for %v, want 0", got)
		}
	})
}

// REQ-D1: not degraded before every node was sampled once, or could not be; then without traffic too.
func TestDegradedAtStart(t *testing.T) {
	f := new(fake)
	f.unsampled.Store(true)
	inBubble(t, func(c *Config) { c.Backend = f }, func(t bubble) {
		r := t.r
		_, err := get(t, r, f, "related", "")
		if !errors.Is(err, ErrShed) {
			t.Errorf("got %v: the policy answers, though the mode is not known yet", err)
		}
		wantMode(t, r, Normal)
		f.unsampled.Store(false)
		after(lookEvery)
		wantMode(t, r, Degraded)
	})
}

// REQ-D9: a larger budget is an operator's first aid; the mode stays.
func TestReconfigureWhileDegraded(t *testing.T) {
	inBubble(t, func(c *Config) { c.Budget = Budget{Rate: 0.01, Burst: 1} }, func(t bubble) {
		r, f := t.r, t.f
		f.degrade()
		_, _ = get(t, r, f, "balance", "")
		if _, err := get(t, r, f, "balance", ""); !errors.Is(err, ErrDegraded) {
			t.Fatalf("got %v", err)
		}
		c := testConfig(f)
		c.Budget = Budget{Rate: 1000, Burst: 100}
		c.Recovery = Recovery{Order: []Class{Sheddable, Critical, Degradable}, Sustain: time.Second}
		if err := r.Reconfigure(c); err != nil {
			t.Fatal(err)
		}
		wantMode(t, r, Degraded)
		after(100 * time.Millisecond)
		for range 50 {
			if _, err := get(t, r, f, "balance", ""); err != nil {
				t.Fatal(err)
			}
		}
		f.eligible.Store(true)
		after(1500 * time.Millisecond)
		if _, err := get(t, r, f, "related", ""); err != nil {
			t.Errorf("sheddable is first now: %v", err)
		}
	})
}

// REQ-D9: one setting is changed by what Config tells, and the others stay, also a share that is none, whose zero would be the default.
func TestConfigIsHandedBack(t *testing.T) {
	inBubble(t, func(c *Config) { c.Budget.CriticalShare = -1 }, func(t bubble) {
		want := t.r.settings.Load().Config
		c := t.r.Config()
		clear(c.Endpoints) // ours
		c.Recovery.Order[0] = 0
		c = t.r.Config()
		c.Budget.Rate = 345
		if err := t.r.Reconfigure(c); err != nil {
			t.Fatal(err)
		}
		got := t.r.settings.Load().Config
		if got.Budget.Rate != 345 || got.Budget.CriticalShare != 0 || len(got.Endpoints) != len(want.Endpoints) || got.Recovery.Order[0] != want.Recovery.Order[0] {
			t.Errorf("got %+v, want %+v with another rate", got, want)
		}
	})
}

// REQ-D9: an order that takes back what was given back is a change of the mode, and told.
func TestReconfigureTellsTheMode(t *testing.T) {
	var told []ModeChange
	inBubble(t, func(c *Config) { c.Observer.OnMode = func(m ModeChange) { told = append(told, m) } }, func(t bubble) {
		r, f := t.r, t.f
		f.degrade()
		f.eligible.Store(true)
		after(3*time.Second + 2*lookEvery)
		wantMode(t, r, Recovering)
		c := r.settings.Load().Config
		if err := r.Reconfigure(c); err != nil || len(told) != 2 {
			t.Errorf("the same again: got %v, told of %v; want two changes", err, told)
		}
		c.Recovery.Order = []Class{Sheddable, Critical, Degradable}
		if err := r.Reconfigure(c); err != nil {
			t.Fatal(err)
		}
		if len(told) != 3 || told[2].From != Recovering || told[2].To != Degraded || len(told[2].Given) != 0 || told[2].At.IsZero() {
			t.Errorf("told of %+v, want Recovering to Degraded at last", told)
		}
	})
}

// REQ-D13: told before the incident.
func TestWarnsOfCriticalEndpointsOverBudget(t *testing.T) {
	var got []OverBudget
	inBubble(t, func(c *Config) {
		c.Budget.Rate = 5
		c.Observer.OnOverBudget = func(o OverBudget) { got = append(got, o) }
	}, func(t bubble) {
		r, f := t.r, t.f
		for range 100 {
			_, _ = get(t, r, f, "balance", "")
			_, _ = get(t, r, f, "product", "")
		}
		after(20 * time.Second)
	})
	if len(got) != 1 || got[0] != (OverBudget{Endpoint: "balance", Rate: 10, Budget: 5}) {
		t.Errorf("got %+v, want one warning of balance", got)
	}
}

// Every fault at once, each naming its field (the bad input).
func TestNewNamesEveryFault(t *testing.T) {
	_, err := New(Config{
		Endpoints:    map[string]Endpoint{"": {Class: Critical}, "a": {}, "b": {Class: Critical, Default: 1}},
		DefaultClass: 9,
		Budget:       Budget{Rate: -1, Burst: -1, Concurrent: -1, CriticalShare: 1, Processes: -1},
		Critical:     CriticalPolicy{MaxStaleness: -1},
		Recovery:     Recovery{Order: []Class{Critical, Critical, 7}, Sustain: -1},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"Backend is nil", `Endpoints is ""`, `Endpoints["a"].Class is class(0)`, `Endpoints["b"].Default is 1`,
		"DefaultClass is class(9)", "Budget.Rate is -1", "Budget.Burst is -1", "Budget.Concurrent is -1", "Budget.CriticalShare is 1", "Budget.Processes is -1",
		"Critical.MaxStaleness is -1ns", "Recovery.Sustain is -1ns", "Recovery.Order[1] is critical: Order[0] is that already", "Recovery.Order[2] is class(7)",
		"degradable is missing", "sheddable is missing",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}

func TestWords(t *testing.T) {
	for c := Critical; c < classes; c++ {
		var back Class
		if text, _ := c.MarshalText(); back.UnmarshalText(text) != nil || back != c {
			t.Errorf("%v: does not come back", c)
		}
	}
	if err := new(Class).UnmarshalText([]byte("urgent")); err == nil || !strings.Contains(err.Error(), `"urgent"`) {
		t.Errorf("got %v", err)
	}
	if got := fmt.Sprint(FromReplica, FromPrimary, FromCache, FromDefault, Source(0), Normal, Degraded, Recovering); got != "replica primary cache default none normal degraded recovering" {
		t.Errorf("got %s", got)
	}
}

// The degraded decision allocates nothing (REQ-D10).
func TestDegradedDecisionAllocatesNothing(t *testing.T) {
	inBubble(t, func(c *Config) { c.Budget = Budget{Rate: 0.001, Burst: 1} }, func(t bubble) {
		r, f := t.r, t.f
		f.degrade()
		_, _ = get(t, r, f, "balance", "")
		for _, name := range []string{"balance", "product", "related", "banner"} {
			load := f.load
			if got := testing.AllocsPerRun(100, func() { _, _ = Get(t.Context(), r, Call{Endpoint: name}, load) }); got != 0 {
				t.Errorf("%s: got %v allocations, want 0", name, got)
			}
		}
	})
}
