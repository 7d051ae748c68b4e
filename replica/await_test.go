package replica_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/replica"
)

// refreshed takes a new sample of every node.
func (c *cluster) refreshed() {
	c.t.Helper()
	if err := c.Refresh(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	synctest.Wait()
}

// stay keeps the samplers as they are: a replica that is behind is not sampled before a calm interval.
func stay(cfg *replica.Config) { cfg.Fast = cfg.Calm }

// awaits is Await with a read that ends at once.
func (c *cluster) awaits(ctx context.Context, r replica.Requirement, limit time.Duration) error {
	choice, err := c.Await(ctx, r, limit)
	choice.Done(nil)
	return err
}

// picked is a pick that is admitted and eligible.
func (c *cluster) picked(r replica.Requirement) *replica.Choice {
	c.t.Helper()
	choice, err := c.Pick(r)
	if err != nil || !choice.Eligible() {
		c.t.Fatalf("%v, eligible %v", err, choice.Eligible())
	}
	return &choice
}

func looksOf(s *server) int {
	n, _, _ := s.counts()
	return n
}

// REQ-R12, behaviours-routing 39: a read with a position goes only to a replica that has replayed up to it.
func TestReadGoesWhereItsPositionIs(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		c.write(2000, c.r[0])
		c.r[1].moveTo(1999)
		c.refreshed()
		for lsn, want := range map[uint64][]string{1: {"r1", "r2", "r3"}, 1000: {"r1", "r2", "r3"}, 1001: {"r1", "r2"}, 1999: {"r1", "r2"}, 2000: {"r1"}, 2001: {""}} {
			got := c.picks(300, replica.Requirement{Position: at(1, lsn)})
			if len(got) != len(want) {
				t.Errorf("LSN %d: %v, want only %v", lsn, got, want)
			}
			for _, name := range want {
				if got[name] == 0 {
					t.Errorf("LSN %d: %v, want some on %q", lsn, got, name)
				}
			}
		}
		if got := c.picks(10, replica.Requirement{Position: at(1, 2000), Except: "r1"}); got[""] != 10 {
			t.Errorf("except the only one that holds it: %v", got)
		}
	})
}

// REQ-R12, REQ-R15: why a position is not served is said for each node, or of the position.
func TestPositionRefusals(t *testing.T) {
	foreign := replica.Position{SystemID: "8", Timeline: 1, LSN: 1}
	for _, tc := range []struct {
		name          string
		position      replica.Position
		want, primary replica.Condition // Fit: served
		says          string
	}{
		{"none", replica.Position{}, replica.Fit, replica.Fit, ""},
		{"held", at(2, 1000), replica.Fit, replica.Fit, ""},
		{"behind", at(2, 1176), replica.Behind, replica.Fit, "176 bytes of WAL short of the read's position, and made no progress"},
		{"older timeline", at(1, 1), replica.OtherTimeline, replica.Fit, "of timeline 1, this node follows 2"},
		{"newer timeline", at(3, 1), replica.OtherTimeline, replica.OtherTimeline, "of timeline 3"},
		{"other cluster", foreign, replica.OtherCluster, replica.OtherCluster, "system identifier is 7, the primary's 7"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, 1, func(cfg *replica.Config) { stay(cfg) }, func(c *cluster) {
				for _, s := range []*server{c.primary, c.r[0]} {
					s.set(func(l *replica.Look) { l.Timeline = 2 })
				}
				c.refreshed()
				c.refreshed()
				choice, err := c.Pick(replica.Requirement{Position: tc.position})
				wantRefusal(t, &choice, err, tc.want)
				if err != nil && tc.want != replica.OtherCluster && !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%q does not say %q", err, tc.says)
				}
				choice, err = c.Pick(replica.Requirement{Position: tc.position, PrimaryOnly: true})
				wantRefusal(t, &choice, err, tc.primary)
				if pe, ok := errors.AsType[*replica.PositionError](err); ok && (pe.Position != tc.position || pe.Detail == "") {
					t.Errorf("%+v", pe)
				}
			})
		})
	}
}

// wantRefusal checks what a pick ended in.
func wantRefusal(t *testing.T, choice *replica.Choice, err error, want replica.Condition) {
	t.Helper()
	pe, ofPosition := errors.AsType[*replica.PositionError](err)
	none, ofNodes := errors.AsType[*replica.NoReplicaError](err)
	switch {
	case err == nil:
		if want != replica.Fit || !choice.Eligible() {
			t.Errorf("served by %q, eligible %v, want %v", choice.Name(), choice.Eligible(), want)
		}
		choice.Done(nil)
	case ofPosition:
		if pe.Condition != want || errors.Is(err, replica.ErrForeignPosition) != (want == replica.OtherCluster) {
			t.Errorf("%v, want %v", err, want)
		}
	case ofNodes:
		if none.Reasons[0].Condition != want || errors.Is(err, replica.ErrBehind) != (want == replica.Behind) {
			t.Errorf("%v, want %v", err, want)
		}
	default:
		t.Error(err)
	}
}

// Before the primary was seen, the replica itself tells that a position is of another cluster.
func TestForeignPositionWithoutAPrimary(t *testing.T) {
	dead := func(cfg *replica.Config) {
		cfg.Primary.Connect = func(context.Context) (replica.Conn, error) { return nil, errors.New("refused") }
	}
	inBubble(t, 1, dead, func(c *cluster) {
		r := replica.Requirement{Position: replica.Position{SystemID: "8", Timeline: 1, LSN: 1}, MaxStaleness: replica.Never}
		choice, err := c.Pick(r)
		wantRefusal(t, &choice, err, replica.OtherCluster)
		r.Position.SystemID = "7"
		choice, err = c.Pick(r)
		wantRefusal(t, &choice, err, replica.Fit)
	})
}

// REQ-R14: a read that accepts an unverified bound still asks for its position.
func TestUnverifiedReadHoldsItsPosition(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.writing(3*time.Second, c.r...)
		held := c.position(c.r[0])
		c.refreshed()
		c.primary.fail(errors.New("gone"))
		time.Sleep(4 * time.Second)
		r := replica.Requirement{AcceptUnverified: true, Position: at(1, held)}
		if choice := c.picked(r); !choice.Unverified() {
			t.Error("not unverified: nothing is shown")
		} else {
			choice.Done(nil)
		}
		r.Position.LSN++
		if _, err := c.Pick(r); !errors.Is(err, replica.ErrBehind) {
			t.Errorf("past what it holds: %v", err)
		}
	})
}

// A replica that lost what it had replayed, as a crashed one may, is not eligible for a read that waited meanwhile.
func TestEligibleAsksForThePositionAgain(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.write(2000, c.r...)
		c.refreshed()
		needs, other := c.picked(replica.Requirement{Position: at(1, 2000)}), c.picked(replica.Requirement{})
		defer needs.Done(nil)
		defer other.Done(nil)
		c.r[0].set(func(l *replica.Look) { l.Instance, l.Position = "restarted", 1000 })
		c.refreshed()
		if needs.Eligible() || !other.Eligible() {
			t.Errorf("behind the position now: eligible %v; a read without one: %v", needs.Eligible(), other.Eligible())
		}
	})
}

// REQ-R16: a position that a replica holds is not waited for, and no sample is taken for it.
func TestAwaitOfWhatIsThere(t *testing.T) {
	inBubble(t, 2, nil, func(c *cluster) {
		c.write(2000, c.r[0])
		c.refreshed()
		before, begun := looksOf(c.r[0])+looksOf(c.r[1]), time.Now()
		for _, r := range []replica.Requirement{{}, {Position: at(1, 5)}, {Position: at(1, 2000)}, {Position: at(1, 1<<40), PrimaryOnly: true}} {
			if err := c.awaits(c.t.Context(), r, 0); err != nil {
				t.Errorf("%+v: %v", r, err)
			}
		}
		synctest.Wait()
		if looks := looksOf(c.r[0]) + looksOf(c.r[1]) - before; looks != 0 || time.Since(begun) != 0 {
			t.Errorf("%d looks, %v", looks, time.Since(begun))
		}
	})
}

// REQ-R16: a hundred reads that wait share the samples of one, find the position within one of them, and leave no haste behind.
func TestAwaitSharesSamples(t *testing.T) {
	inBubble(t, 2, stay, func(c *cluster) {
		c.write(2000)
		c.refreshed()
		before, begun := looksOf(c.r[0]), time.Now()
		time.AfterFunc(105*ms, func() { c.r[0].moveTo(2000) })
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Microsecond)
				choice, err := c.Await(c.t.Context(), replica.Requirement{Position: at(1, 2000)}, 0)
				if err != nil || choice.Name() != "r1" {
					t.Errorf("%q, %v", choice.Name(), err)
				} else {
					choice.Done(nil)
				}
			})
		}
		wg.Wait()
		took, looks := time.Since(begun), looksOf(c.r[0])-before
		if took < 105*ms || took > 115*ms || looks > 12 {
			t.Errorf("%d looks of r1 in %v, want at most 12 in 105 to 115 ms", looks, took)
		}
		before = looksOf(c.r[0])
		time.Sleep(1500 * ms)
		if looks := looksOf(c.r[0]) - before; looks > 2 {
			t.Errorf("%d looks of r1 in 1.5 s after the wait, want at most 2", looks)
		}
	})
}

// Reads that wait for one position do not all fall on the first replica that holds it: who finds no place there waits on.
func TestAwaitWaitsForAPlace(t *testing.T) {
	adjust := func(cfg *replica.Config) {
		stay(cfg)
		for i := range cfg.Replicas {
			cfg.Replicas[i].MaxInFlight = 2
		}
	}
	inBubble(t, 2, adjust, func(c *cluster) {
		c.write(2000)
		c.refreshed()
		time.AfterFunc(20*ms, func() { c.r[0].moveTo(2000) })
		time.AfterFunc(100*ms, func() { c.r[1].moveTo(2000) })
		var wg sync.WaitGroup
		for range 12 {
			wg.Go(func() {
				choice, err := c.Await(c.t.Context(), replica.Requirement{Position: at(1, 2000)}, 0)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(30 * ms)
				choice.Done(nil)
			})
		}
		wg.Wait()
		if a, b := c.stats(0).Reads, c.stats(1).Reads; a+b != 12 || b < 2 {
			t.Errorf("%d reads on r1 and %d on r2", a, b)
		}
		r, begun := replica.Requirement{Position: at(1, 2000)}, time.Now()
		for range 4 {
			held := c.picked(r)
			time.AfterFunc(30*ms, func() { held.Done(nil) })
		}
		if _, err := c.Pick(r); !errors.Is(err, replica.ErrSaturated) {
			t.Errorf("with every place taken: %v", err)
		}
		if err := c.awaits(c.t.Context(), r, 0); err != nil || time.Since(begun) > 45*ms {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}

// A look that takes long is not taken more often than a tenth of the time.
func TestAwaitIsGentleWithASlowReplica(t *testing.T) {
	inBubble(t, 1, stay, func(c *cluster) {
		c.r[0].slow(5 * ms)
		c.write(2000)
		c.refreshed()
		before := looksOf(c.r[0])
		if err := c.awaits(c.t.Context(), replica.Requirement{Position: at(1, 2000)}, 400*ms); !errors.Is(err, replica.ErrBehind) {
			t.Error(err)
		}
		if looks := looksOf(c.r[0]) - before; looks < 6 || looks > 8 {
			t.Errorf("%d looks of 5 ms in 400 ms, want 6 to 8", looks)
		}
	})
}

// REQ-R12: a wait is bounded, and its error says what is missing and when it may be there.
func TestAwaitEndsWithAnEstimate(t *testing.T) {
	inBubble(t, 2, nil, func(c *cluster) {
		c.write(1_000_000)
		c.refreshed()
		var replay sync.WaitGroup
		replay.Go(func() { // 1,000 bytes a millisecond
			for range 300 {
				c.r[0].moveTo(c.position(c.r[0]) + 1000)
				time.Sleep(ms)
			}
		})
		defer replay.Wait()
		begun := time.Now()
		err := c.awaits(c.t.Context(), replica.Requirement{Position: at(1, 1_000_000)}, 0)
		none, ok := errors.AsType[*replica.NoReplicaError](err)
		if !ok || !errors.Is(err, replica.ErrBehind) || time.Since(begun) != replica.DefaultAwait {
			t.Fatalf("after %v: %v", time.Since(begun), err)
		}
		if none.RetryAfter < 650*ms || none.RetryAfter > 850*ms { // 749 kB are missing, and a sample is 10 or 11 ms after the last
			t.Errorf("RetryAfter %v: %v", none.RetryAfter, err)
		}
		for _, part := range []string{"r1: behind (7", "bytes of WAL short of the read's position, about ", "ms at its pace", "r2: behind (999000 bytes", "no progress"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
	})
}

// A wait that cannot help is not begun; others end with their caller and with the Set.
func TestAwaitEnds(t *testing.T) {
	inBubble(t, 1, stay, func(c *cluster) {
		r := replica.Requirement{Position: at(1, 2000)}
		c.write(2000)
		c.refreshed()
		begun := time.Now()
		if err := c.awaits(c.t.Context(), r, -1); !errors.Is(err, replica.ErrBehind) {
			t.Errorf("no wait: %v", err)
		}
		if err := c.awaits(c.t.Context(), replica.Requirement{Position: at(2, 5)}, 0); !errors.Is(err, replica.ErrNoReplica) || errors.Is(err, replica.ErrBehind) {
			t.Errorf("other timeline: %v", err)
		}
		if err := c.awaits(c.t.Context(), replica.Requirement{Position: replica.Position{SystemID: "8", Timeline: 1, LSN: 1}}, 0); !errors.Is(err, replica.ErrForeignPosition) {
			t.Errorf("other cluster: %v", err)
		}
		if time.Since(begun) != 0 {
			t.Errorf("they took %v", time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), 20*ms)
		defer cancel()
		if err := c.awaits(ctx, r, 0); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 20*ms {
			t.Errorf("the caller's deadline: %v after %v", err, time.Since(begun))
		}
		time.AfterFunc(20*ms, c.Close)
		if err := c.awaits(c.t.Context(), r, 0); !errors.Is(err, replica.ErrClosed) || time.Since(begun) != 40*ms {
			t.Errorf("Close: %v after %v", err, time.Since(begun))
		}
		synctest.Wait() // for Close to return
		if err := c.awaits(c.t.Context(), replica.Requirement{}, 0); !errors.Is(err, replica.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// REQ-R16: a bound below the calm interval is met by an extra sample.
func TestAwaitOfANewerSample(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		for c.stats(0).Hi < time.Second { // writes on both: Hi grows between samples
			c.write(c.position(c.primary)+100, c.r...)
			time.Sleep(20 * ms)
		}
		r, begun := replica.Requirement{MaxStaleness: 400 * ms}, time.Now()
		if _, err := c.Pick(r); !errors.Is(err, replica.ErrNoReplica) {
			t.Fatal(err)
		}
		if err := c.awaits(c.t.Context(), r, 0); err != nil || time.Since(begun) > 10*ms {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}

// REQ-R12: a position is as of a look that began after the call, shared by all who ask.
func TestSetPosition(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.primary.slow(5 * ms)
		time.Sleep(300 * ms)
		before := looksOf(c.primary)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				var written uint64
				c.primary.set(func(l *replica.Look) { l.Position += 10; written = l.Position })
				p, err := c.Position(c.t.Context())
				if err != nil || p.LSN < written || p.SystemID != "7" || p.Timeline != 1 {
					t.Errorf("position %+v after a write at %d, %v", p, written, err)
				}
			})
		}
		wg.Wait()
		if looks := looksOf(c.primary) - before; looks > 2 {
			t.Errorf("%d looks at the primary for 50 positions, want at most 2", looks)
		}
		c.primary.fail(errors.New("refused"))
		if p, err := c.Position(c.t.Context()); err == nil || !strings.Contains(err.Error(), "refused") || !p.IsZero() {
			t.Errorf("with the primary down: %v, %v", p, err)
		}
		c.Close()
		if _, err := c.Position(c.t.Context()); !errors.Is(err, replica.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// REQ-R1: a pick with a position allocates nothing, nor does an Await that need not wait.
func TestPickWithAPositionAllocatesNothing(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		c.write(2000, c.r[0])
		c.refreshed()
		r := replica.Requirement{Position: at(1, 2000)}
		ctx, turn := c.t.Context(), 0
		if n := testing.AllocsPerRun(100, func() {
			choice, err := c.Pick(r)
			if turn++; turn%2 == 0 {
				choice.Done(nil)
				choice, err = c.Await(ctx, r, 0)
			}
			if err != nil || !choice.Eligible() {
				t.Fatal(err)
			}
			choice.Done(nil)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}
