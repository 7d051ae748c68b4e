//go:build unix

package fleet_test

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/internal/fleet"
	"github.com/breakwater-go/breakwater/internal/relay"
)

// Each node has another fault when Close comes; the last one's postmaster was
// killed behind our back, so that its backends are nobody's children.
func TestCloseAfterEveryFault(t *testing.T) {
	t.Parallel()
	f := start(t, fleet.Config{Replicas: 8, Upstream: map[string]string{"r8": "r1"}})
	must(t, f.Pause(t.Context(), "r1"))
	must(t, f.SetApplyDelay(t.Context(), "r2", time.Hour))
	must(t, f.CutLink("r3", relay.Blackhole))
	must(t, f.Freeze("r3"))
	must(t, f.CutLink("r4", relay.Refuse))
	must(t, f.Kill("r5"))
	must(t, f.Stop(t.Context(), "r6"))
	must(t, f.Promote(t.Context(), "r7"))
	must(t, f.Freeze("primary"))
	pids, _, err := f.Tree("r8")
	must(t, err)
	must(t, f.Freeze("r8"))
	must(t, syscall.Kill(pids[0], syscall.SIGKILL))
	segments := f.Segments(t)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, f.Dir())
	for _, id := range segments {
		if fleet.SegmentExists(t, id) {
			t.Errorf("shared memory segment %s is left", id)
		}
	}
}

// Close does not wait for an operation that waits for what will not come.
func TestCloseEndsOperations(t *testing.T) {
	t.Parallel()
	r := start(t, fleet.Config{Replicas: 1})
	must(t, r.Pause(t.Context(), "r1"))
	done := make(chan error, 1)
	go func() { done <- r.CatchUp(t.Context()) }()
	var closes sync.WaitGroup
	for range 3 {
		closes.Go(func() {
			if err := r.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	closes.Wait()
	for _, err := range []error{<-done, r.Pause(t.Context(), "r1"), r.Freeze("r1"), r.HealLink("r1"), r.Heal(t.Context()), r.CatchUp(t.Context())} {
		if !errors.Is(err, fleet.ErrClosed) {
			t.Errorf("during or after Close: got %v, want ErrClosed", err)
		}
	}
	wantNothingLeft(t, r.Dir())
}
