package readpath

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/replica"
)

// A fake is a Backend of one replica and a primary, whose loads return where they read.
type fake struct {
	eligible  atomic.Bool
	late      atomic.Bool // it answers those who accept it, hi old
	saturated atomic.Bool
	unsampled atomic.Bool
	behind    atomic.Bool // for reads with a position
	hi        atomic.Int64
	primary   atomic.Int64 // reads that began there
	at        atomic.Int64 // reads that run there now
	peak      atomic.Int64
	hold      chan struct{} // reads of the primary wait for it, if it is not nil
	down      atomic.Bool   // reads fail: at the replica too, which still looks eligible
	lost      atomic.Bool   // the primary does not answer its samples
	picky     atomic.Bool   // only reads that accept an unverified bound find a replica
}

// errDown is how a read of a node fails that is down.
var errDown = errors.New("connection refused")

type fakeKey struct{}

type asked struct {
	req  replica.Requirement
	info *ReadInfo
}

func (f *fake) WithRead(ctx context.Context, req replica.Requirement, info *ReadInfo) context.Context {
	return context.WithValue(ctx, fakeKey{}, asked{req, info})
}

func (f *fake) Eligible(req replica.Requirement) bool {
	return req.PrimaryOnly && !f.lost.Load() || !req.PrimaryOnly && f.fresh(req) || f.takesLate(req)
}

func (f *fake) fresh(req replica.Requirement) bool {
	return f.eligible.Load() && (!f.picky.Load() || req.AcceptUnverified) && time.Duration(f.hi.Load()) <= orLimit(req.MaxStaleness)
}

func (f *fake) takesLate(req replica.Requirement) bool {
	return f.late.Load() && req.AcceptLate > 0 && time.Duration(f.hi.Load()) <= req.AcceptLate && (!f.behind.Load() || req.Position.IsZero())
}

func (f *fake) Sampled() bool         { return !f.unsampled.Load() }
func (f *fake) Failed(err error) bool { return errors.Is(err, errDown) }

func orLimit(d time.Duration) time.Duration {
	if d == 0 {
		return 2250 * time.Millisecond
	}
	return d
}

// load is a read that returns the name of its node.
func (f *fake) load(ctx context.Context) (string, error) {
	a := ctx.Value(fakeKey{}).(asked)
	*a.info = ReadInfo{PickedAt: time.Now(), Attempts: 1}
	if f.down.Load() && (a.req.PrimaryOnly || f.Eligible(a.req)) {
		return "", fmt.Errorf("query: %w", errDown)
	}
	if a.req.PrimaryOnly {
		return f.loadPrimary(ctx, a)
	}
	switch {
	case f.saturated.Load():
		return "", &replica.NoReplicaError{Reasons: []replica.NodeReason{{Node: "r1", Condition: replica.Saturated}}}
	case f.behind.Load() && !replica.PositionFrom(ctx).IsZero():
		return "", &replica.NoReplicaError{Reasons: []replica.NodeReason{{Node: "r1", Condition: replica.Behind}}}
	case f.fresh(a.req):
	case f.takesLate(a.req):
		a.info.Late = true
	default:
		return "", fmt.Errorf("query: %w", &replica.NoReplicaError{Reasons: []replica.NodeReason{{Node: "r1", Condition: replica.Late}}})
	}
	a.info.Node, a.info.Hi = "r1", time.Duration(f.hi.Load())
	return "r1", nil
}

func (f *fake) loadPrimary(ctx context.Context, a asked) (string, error) {
	f.primary.Add(1)
	n := f.at.Add(1)
	defer f.at.Add(-1)
	for {
		p := f.peak.Load()
		if n <= p || f.peak.CompareAndSwap(p, n) {
			break
		}
	}
	if f.hold != nil {
		select {
		case <-f.hold:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	a.info.Node, a.info.Primary = "primary", true
	return "primary", nil
}

// A mapCache keeps everything; tests are short.
type mapCache struct {
	m map[CacheKey]Entry
}

func (c *mapCache) Get(k CacheKey) (Entry, bool) { e, ok := c.m[k]; return e, ok }
func (c *mapCache) Set(k CacheKey, e Entry)      { c.m[k] = e }

func testConfig(f *fake) Config {
	return Config{
		Backend: f,
		Endpoints: map[string]Endpoint{
			"balance": {Class: Critical},
			"product": {Class: Degradable},
			"related": {Class: Sheddable},
			"banner":  {Class: Sheddable, Default: "none"},
			"price":   {Class: Degradable, Default: "unknown"},
		},
		Recovery: Recovery{Sustain: 3 * time.Second},
	}
}

func newRouter(t *testing.T, c Config) *Router {
	t.Helper()
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// A bubble is the test in a bubble, with its router.
type bubble struct {
	*testing.T

	r *Router
	f *fake
}

// inBubble runs f in a bubble with a router that is closed in it.
func inBubble(t *testing.T, change func(*Config), test func(t bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := new(fake)
		f.eligible.Store(true)
		c := testConfig(f)
		if change != nil {
			change(&c)
		}
		r := newRouter(t, c)
		defer r.Close()
		after(lookEvery)
		test(bubble{t, r, f})
	})
}

// degrade lets no replica be eligible for long enough that they are withheld.
func (f *fake) degrade() {
	f.eligible.Store(false)
	after(confirm + lookEvery)
}

func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func get(tb testing.TB, r *Router, f *fake, endpoint, key string) (Result[string], error) {
	tb.Helper()
	return Get(tb.Context(), r, Call{Endpoint: endpoint, Key: key}, f.load)
}

func wantMode(tb testing.TB, r *Router, want Mode) {
	tb.Helper()
	if got := r.Mode(); got != want {
		tb.Fatalf("mode: got %v, want %v", got, want)
	}
}
