package grpcbreaker

import (
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// New names every fault at once, the breaker's too.
func TestConfigFaults(t *testing.T) {
	_, err := New(Config{
		Breaker:  breaker.Config{Open: breaker.Backoff{Base: -1}, Probe: breaker.Probe{Lease: -1}},
		MaxKeys:  -1,
		SlowCall: -time.Second,
	})
	if err == nil {
		t.Fatal("no error")
	}
	_, tooMany := New(Config{MaxKeys: 1_000_001})
	if want := "grpcbreaker: MaxKeys is 1000001"; tooMany == nil || !strings.Contains(tooMany.Error(), want) {
		t.Errorf("got %v, want %q in it", tooMany, want)
	}
	for _, want := range []string{
		"Open.Base", "Probe.Lease",
		"grpcbreaker: MaxKeys is -1: use 1 to 1000000, or 0 for 10000",
		"grpcbreaker: SlowCall is -1s: use a positive duration, or 0 for 500ms",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}

// Too many are as bad as too few: the fault was that of package breaker's own field, after all others.
func TestTooManyKeysAreNamed(t *testing.T) {
	g, err := New(Config{MaxKeys: 2_000_000, SlowCall: -time.Second})
	if err == nil || g != nil {
		t.Fatalf("got %v, %v, want an error alone", g, err)
	}
	for _, want := range []string{"grpcbreaker: MaxKeys is 2000000", "SlowCall is -1s"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	c := Config{}.withDefaults()
	if c.MaxKeys != 10_000 || c.CallTimeout != 2*time.Second || c.AnswerTimeout != 2*time.Second || c.SlowCall != 500*time.Millisecond {
		t.Errorf("got %+v", c)
	}
	set := Config{MaxKeys: 7, CallTimeout: -1, AnswerTimeout: time.Minute, SlowCall: 3}
	set.Breaker.Probe.Lease = time.Hour
	c = set.withDefaults()
	if c.MaxKeys != 7 || c.CallTimeout != -1 || c.AnswerTimeout != time.Minute || c.SlowCall != 3 || c.Breaker.Probe.Lease != time.Hour {
		t.Errorf("what was set has changed: %+v", c)
	}
}

// The lease that half of which lets a stream settle is the breaker's own default.
func TestDefaultLease(t *testing.T) {
	set := breaker.Config{Probe: breaker.Probe{Lease: -1}}
	_, err := breaker.New(set)
	if err == nil || !strings.Contains(err.Error(), "0 for "+defaultLease.String()) {
		t.Errorf("package breaker says %v, this one %v", err, defaultLease)
	}
}

// REQ-B15: one breaker a key, a bounded number of them, and not at the cost of an open one.
func TestBreakersAreBounded(t *testing.T) {
	c := oneFailure()
	c.MaxKeys = 3
	g := mustNew(t, c)
	sick := g.Breaker("sick")
	sick.Trip(breaker.Reason{})
	for range 10 {
		for _, key := range []string{"a", "b", "c", "d"} {
			if got := g.Breaker(key).Name(); got != key {
				t.Fatalf("name: got %q, want %q", got, key)
			}
		}
	}
	if g.Breaker("sick") != sick {
		t.Error("the open breaker was dropped for a closed one")
	}
	if b := g.Breaker("d"); g.Breaker("d") != b {
		t.Error("one key, two breakers")
	}
}

// A lease that is over before the call can end would lose every slow probe's slot.
func TestLeaseIsLongerThanACall(t *testing.T) {
	c := Config{Breaker: breaker.Config{Probe: breaker.Probe{Lease: time.Second}}}
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "Breaker.Probe.Lease is 1s") {
		t.Errorf("got %v", err)
	}
	c.CallTimeout, c.AnswerTimeout = -1, 500*time.Millisecond
	if _, err := New(c); err != nil {
		t.Errorf("with shorter timeouts: %v", err)
	}
}
