package breaker

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestSetConfigFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		c    SetConfig[string]
		want []string
	}{
		"zero":      {},
		"Max":       {SetConfig[string]{Max: -1}, []string{"breaker: Max is -1: use 1 to 1000000, or 0 for 10000"}},
		"Max, over": {SetConfig[string]{Max: 1_000_001}, []string{"breaker: Max is 1000001"}},
		"Idle":      {SetConfig[string]{Idle: -1}, []string{"breaker: Idle is -1ns: use 0 to switch it off"}},
		"all at once": {
			SetConfig[string]{Max: -1, Idle: 366 * 24 * time.Hour, Config: Config{Open: Backoff{Base: -1}}},
			[]string{"Open.Base is -1ns", "Max is -1", "Idle is 8784h0m0s: use at most 8760h0m0s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewSet(tc.c)
			if (err != nil) != (tc.want != nil) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, want %q in it", err, part)
				}
			}
		})
	}
}

// REQ-B18: a fault of For never keeps a call from running.
func TestKeyWhoseConfigFails(t *testing.T) {
	for name, tc := range map[string]struct {
		f    func(string, Config) Config
		want string
	}{
		"refused": {func(_ string, c Config) Config { c.Open.Base = -1; return c }, "Open.Base is -1ns"},
		"panic":   {func(string, Config) Config { panic("no") }, "panicked"},
	} {
		t.Run(name, func(t *testing.T) {
			var rec recorder
			s := mustSet(t, SetConfig[string]{
				Config: Config{Rules: []Rule{ConsecutiveFailures{Count: 2}}, Observer: rec.observer()},
				For:    tc.f,
			})
			runN(t, s.Get("a"), 2, errDown)
			wantState(t, s.Get("a"), Open)
			if len(rec.faults) != 1 || rec.faults[0].Part != "For" || rec.faults[0].Name != "a" ||
				!strings.Contains(rec.faults[0].Detail, tc.want) {
				t.Errorf("faults: got %+v, want one of For, with %q", rec.faults, tc.want)
			}
			wantSetStats(t, s, SetStats{Len: 1, Faults: 1})
		})
	}
}

func TestKeyWithItsOwnConfig(t *testing.T) {
	s := mustSet(t, SetConfig[string]{
		Config: Config{Rules: []Rule{ConsecutiveFailures{Count: 2}}},
		For: func(key string, c Config) Config {
			if key == "strict" {
				c.Name += "!"
				c.Rules[0] = ConsecutiveFailures{Count: 1}
			}
			return c
		},
	})
	run(s.Get("strict"), errDown)
	run(s.Get("plain"), errDown)
	wantState(t, s.Get("strict"), Open)
	wantState(t, s.Get("plain"), Closed) // its rules are not those that For wrote to
	if got := s.Get("strict").Name(); got != "strict!" {
		t.Errorf("name: got %q, want %q", got, "strict!")
	}
}

func TestKeyThatIsNotItself(t *testing.T) {
	s := mustSet(t, SetConfig[float64]{})
	first, second := s.Get(math.NaN()), s.Get(math.NaN())
	if first == second || !run(first, nil) || !run(second, nil) {
		t.Error("NaN: want a breaker of its own each time")
	}
	wantSetStats(t, s, SetStats{})
}

// A key that cannot be compared is misuse, and leaves the set as it was.
func TestKeyThatCannotBeCompared(t *testing.T) {
	s := mustSet(t, SetConfig[any]{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("want a panic, as a map's")
			}
		}()
		s.Get([]int{1})
	}()
	run(s.Get(1), nil)
	wantSetStats(t, s, SetStats{Len: 1})
}
