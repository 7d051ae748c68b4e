package httpbreaker

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

func TestDefaults(t *testing.T) { // REQ-B11
	c := Config{}.withDefaults()
	if c.CallTimeout != 2*time.Second || c.StallTimeout != 10*time.Second || c.SlowCall != 500*time.Millisecond || c.MaxKeys != 10_000 {
		t.Errorf("got %v, %v, %v, %d", c.CallTimeout, c.StallTimeout, c.SlowCall, c.MaxKeys)
	}
	base := c.Base.(*http.Transport)
	if base.TLSHandshakeTimeout != 500*time.Millisecond || base.HTTP2.SendPingTimeout == 0 || base.Proxy == nil {
		t.Errorf("default Base: got %+v", base)
	}
}

func TestNewNamesEveryFault(t *testing.T) {
	_, err := New(Config{
		Breaker:        breaker.Config{Open: breaker.Backoff{Base: time.Hour, Max: time.Second}},
		MaxKeys:        -1,
		Base:           answer(200, ""),
		ConnectTimeout: time.Second,
		SlowCall:       -1,
	})
	_, negative := New(Config{ConnectTimeout: -1})
	_, tooMany := New(Config{MaxKeys: 1_000_001, SlowCall: -1})
	for _, tc := range []struct {
		err  error
		want string
	}{
		{err, "Open.Max is 1s"},
		{err, "MaxKeys is -1: use 1 to 1000000"},
		{tooMany, "httpbreaker: MaxKeys is 1000001"},
		{tooMany, "SlowCall is -1ns"}, // all at once
		{err, "ConnectTimeout is 1s: Base dials by itself"},
		{err, "SlowCall is -1ns"},
		{negative, "ConnectTimeout is -1ns"},
	} {
		if tc.err == nil || !strings.Contains(tc.err.Error(), tc.want) {
			t.Errorf("got %v, want %q in it", tc.err, tc.want)
		}
	}
}

func TestBreakersAreBounded(t *testing.T) { // REQ-B15
	tr := newTransport(t, Config{Base: answer(200, ""), MaxKeys: 3})
	tr.Breaker("open").Trip(breaker.Reason{})
	for key := range strings.SplitSeq("abcdefgh", "") {
		tr.Breaker(key)
	}
	if n := tr.breakers.Len(); n != 3 {
		t.Errorf("breakers: got %d, want 3", n)
	}
	wantState(t, tr.Breaker("open"), breaker.Open)
}

func TestBreakerName(t *testing.T) {
	for name, want := range map[string]string{"": "api.test:443", "partners": "partners/api.test:443"} {
		tr := newTransport(t, Config{Breaker: breaker.Config{Name: name, Rules: breakerConfig().Rules}})
		if got := tr.Breaker("api.test:443").Name(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A lease that is over before the call can end would lose every slow probe's slot.
func TestLeaseIsLongerThanACall(t *testing.T) {
	c := Config{Base: answer(200, ""), Breaker: breaker.Config{Probe: breaker.Probe{Lease: 2 * time.Second}}}
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "Breaker.Probe.Lease is 2s") {
		t.Errorf("got %v", err)
	}
	c.CallTimeout = time.Second
	if _, err := New(c); err != nil {
		t.Errorf("with a shorter CallTimeout: %v", err)
	}
}
