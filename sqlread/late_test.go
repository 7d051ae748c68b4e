package sqlread_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/sqlread"
)

// writing moves the primary on for d; the replicas replay nothing.
func (r *rig) writing(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		r.primary.moved.Add(8)
	}
}

// REQ-D5, REQ-R4, REQ-R7: a replica that is open because of lag takes, and is dialled for, the reads that accept it and no other;
// what they meet does not count, but keeps late reads away.
func TestLateReplica(t *testing.T) {
	adjust := func(_ *rig, cfg *sqlread.Config) { cfg.Settings.Open.Base = 5 * time.Second }
	inBubble(t, 1, adjust, func(r *rig) {
		ctx, accepts, r1 := r.t.Context(), replica.Requirement{AcceptLate: time.Minute}, r.r[0]
		r.writing(4 * time.Second)
		if got := r.stats(r1).Breaker; got.State != breaker.Open || got.Reason.Rule != "lag" {
			r.t.Fatalf("r1: %v by %v, want open by lag", got.State, got.Reason)
		}
		if _, err := r.read(ctx, replica.Requirement{MaxStaleness: replica.Never}); !errors.Is(err, replica.ErrNoReplica) {
			r.t.Errorf("without the choice: got %v, want ErrNoReplica", err)
		}
		for range 3 {
			info, err := r.read(ctx, accepts)
			if err != nil || info.Node != "r1" || !info.Late || info.Hi < 3*time.Second || info.Hi > 6*time.Second {
				r.t.Errorf("got %+v, %v; want r1, late by 4 s", info, err)
			}
		}
		tx, err := r.Reader(accepts).BeginTx(ctx, nil)
		r.must(err)
		r.must(tx.Rollback())
		if got := r1.count("connect"); got != 1 {
			r.t.Errorf("%d dials, want 1", got)
		}
		r1.fails("query", 1, io.ErrUnexpectedEOF)
		if _, err := r.read(ctx, accepts); !errors.Is(err, replica.ErrNoReplica) || !errors.Is(err, io.ErrUnexpectedEOF) {
			r.t.Errorf("it fails: got %v, want the error, and that there is no other", err)
		}
		if _, err := r.read(ctx, accepts); !errors.Is(err, replica.ErrNoReplica) || errors.Is(err, io.ErrUnexpectedEOF) {
			r.t.Errorf("after the failure: got %v, want ErrNoReplica", err)
		}
		if got := r.stats(r1).Breaker; got.Failures+got.Successes != 0 {
			r.t.Errorf("late reads counted: %+v", got)
		}
	})
}
