package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/breakwater-go/breakwater/internal/relay"
)

// opBudget bounds an operation whose caller's context is more patient.
const opBudget = 30 * time.Second

// need is what an operation asks of its node.
type need int

const (
	needsReplica need = 1 << iota
	needsRunning
	needsThawed
)

// Pause stops replay on a replica; it goes on receiving. It returns when replay
// has stopped, or if an apply delay is set, when the stop was asked for. A
// restart ends the pause.
func (f *Fleet) Pause(ctx context.Context, name string) error {
	return f.on(ctx, "Pause", name, needsReplica|needsRunning|needsThawed, func(ctx context.Context, n *node) error {
		if err := f.attempt(ctx, f.adminDSN(n), "SELECT pg_wal_replay_pause()"); err != nil {
			return err
		}
		n.op.paused = true
		return f.awaitServer(ctx, n.op.proc, f.adminDSN(n), f.pausedQuery(n))
	})
}

// pausedQuery fails (division by zero) until replay is paused. The server of
// version 13 has no state between asked for and paused.
func (f *Fleet) pausedQuery(n *node) string {
	if f.bin.major == 13 || n.op.applyDelay > 0 {
		return "SELECT 1 / pg_is_wal_replay_paused()::int"
	}
	return "SELECT 1 / (pg_get_wal_replay_pause_state() = 'paused')::int"
}

// Resume ends a Pause.
func (f *Fleet) Resume(ctx context.Context, name string) error {
	return f.on(ctx, "Resume", name, needsReplica|needsRunning|needsThawed, f.resumeLocked)
}

func (f *Fleet) resumeLocked(ctx context.Context, n *node) error {
	if err := f.attempt(ctx, f.adminDSN(n), "SELECT pg_wal_replay_resume()"); err != nil {
		return err
	}
	n.op.paused = false
	return nil
}

// SetApplyDelay makes a replica replay each commit d after it was made
// (recovery_min_apply_delay), 0 for at once. d is cut to milliseconds. It
// outlasts a restart.
func (f *Fleet) SetApplyDelay(ctx context.Context, name string, d time.Duration) error {
	if d < 0 || d.Milliseconds() > math.MaxInt32 {
		return fmt.Errorf("fleet: SetApplyDelay(%q): delay %v: use 0 to %v", name, d, math.MaxInt32*time.Millisecond)
	}
	return f.on(ctx, "SetApplyDelay", name, needsReplica|needsRunning|needsThawed, func(ctx context.Context, n *node) error {
		return f.setApplyDelayLocked(ctx, n, d)
	})
}

func (f *Fleet) setApplyDelayLocked(ctx context.Context, n *node, d time.Duration) error {
	n.op.applyDelay = d
	if err := n.writeSettings(f.adminPassword, f.account); err != nil {
		return err
	}
	if err := n.op.proc.signal(sigReload); err != nil {
		return err
	}
	return f.awaitServer(ctx, n.op.proc, f.adminDSN(n), fmt.Sprintf(
		"SELECT 1 / (setting::bigint = %d)::int FROM pg_settings WHERE name = 'recovery_min_apply_delay'", d.Milliseconds(),
	))
}

// CutLink breaks a replica's link to its upstream: relay.Refuse or
// relay.Blackhole. The replica itself goes on answering.
func (f *Fleet) CutLink(name string, mode relay.Mode) error {
	if mode == relay.Pass {
		return fmt.Errorf("fleet: CutLink(%q): mode pass cuts nothing: use Refuse or Blackhole, or HealLink", name)
	}
	return f.onLink("CutLink", name, func(r *relay.Relay) error { return r.SetMode(mode) })
}

// HealLink ends a CutLink; the replica connects again by itself within about
// 200 ms.
func (f *Fleet) HealLink(name string) error {
	return f.onLink("HealLink", name, func(r *relay.Relay) error { return r.SetMode(relay.Pass) })
}

// SetLinkDelay adds d to the way, each way, of a replica's link to its
// upstream; 0 for none.
func (f *Fleet) SetLinkDelay(name string, d time.Duration) error {
	return f.onLink("SetLinkDelay", name, func(r *relay.Relay) error { return r.SetDelay(d) })
}

// LinkAccepts counts the connections that a replica has made to its upstream.
func (f *Fleet) LinkAccepts(name string) (int64, error) {
	var accepts int64
	err := f.onLink("LinkAccepts", name, func(r *relay.Relay) error {
		accepts = r.Accepts()
		return nil
	})
	return accepts, err
}

// Freeze stops the server's postmaster and every one of its processes (SIGSTOP)
// and returns when all of them stand. Connects still succeed and are never
// answered.
func (f *Fleet) Freeze(name string) error {
	return f.on(context.Background(), "Freeze", name, needsRunning, func(_ context.Context, n *node) error {
		n.op.frozen = true // also if only some could be stopped: Thaw wakes those
		return n.op.proc.freeze()
	})
}

// Thaw ends a Freeze.
func (f *Fleet) Thaw(name string) error {
	return f.on(context.Background(), "Thaw", name, 0, func(_ context.Context, n *node) error { return n.thawLocked() })
}

func (n *node) thawLocked() error {
	if !n.op.frozen {
		return nil
	}
	if n.runningLocked() {
		if err := n.op.proc.thaw(); err != nil {
			return err
		}
	}
	n.op.frozen = false
	return nil
}

// Kill ends the server and all its processes with SIGKILL, as a power cut does,
// and returns when they are gone. Connects are refused until Restart.
func (f *Fleet) Kill(name string) error {
	return f.on(context.Background(), "Kill", name, 0, func(_ context.Context, n *node) error {
		if !n.runningLocked() {
			return nil
		}
		n.op.frozen = false
		return n.op.proc.kill()
	})
}

// Stop ends the server in order (fast: it ends its sessions and writes a
// checkpoint) and returns when it is gone. Connects are refused until Restart.
func (f *Fleet) Stop(ctx context.Context, name string) error {
	return f.on(ctx, "Stop", name, needsThawed, func(ctx context.Context, n *node) error { return n.stopLocked(ctx) })
}

func (n *node) stopLocked(ctx context.Context) error {
	if !n.runningLocked() {
		return nil
	}
	if err := n.op.proc.signal(sigFastStop); err != nil {
		return err
	}
	select {
	case <-n.op.proc.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: it has not stopped yet", context.Cause(ctx))
	}
}

// Restart starts a server that Kill or Stop took down, and first stops one that
// runs. It returns when the server answers; whether a replica has caught up
// says CatchUp.
func (f *Fleet) Restart(ctx context.Context, name string) error {
	return f.on(ctx, "Restart", name, needsThawed, func(ctx context.Context, n *node) error {
		if err := n.stopLocked(ctx); err != nil {
			return err
		}
		return f.upLocked(ctx, n, nil)
	})
}

// Promote makes a replica a primary of its own, on a new timeline, and returns
// when it takes writes. The old primary runs on, and replicas below the new one
// follow it. Heal makes all of them replicas of the old one again, from a fresh
// copy.
func (f *Fleet) Promote(ctx context.Context, name string) error {
	return f.on(ctx, "Promote", name, needsReplica|needsRunning|needsThawed, func(ctx context.Context, n *node) error {
		if err := f.attempt(ctx, f.adminDSN(n), "SELECT pg_promote(false)"); err != nil {
			return err
		}
		n.op.paused = false
		f.divergeLocked(n)
		return f.awaitServer(ctx, n.op.proc, f.adminDSN(n), "SELECT 1 / (NOT pg_is_in_recovery())::int")
	})
}

// divergeLocked notes that n and all below it have another history than the
// primary. Locks are taken downstream, and nowhere else two at a time.
func (f *Fleet) divergeLocked(n *node) {
	n.op.diverged = true
	for _, below := range f.replicas() {
		if below.upstream == n {
			below.op.Lock()
			f.divergeLocked(below)
			below.op.Unlock()
		}
	}
}

// SwitchSegment makes the primary go on in a new WAL segment, also when nothing
// was written since the last switch.
func (f *Fleet) SwitchSegment(ctx context.Context) error {
	return f.on(ctx, "SwitchSegment", primaryName, needsRunning|needsThawed, func(ctx context.Context, n *node) error {
		return f.attempt(ctx, f.adminDSN(n), "SELECT pg_switch_wal() FROM pg_logical_emit_message(false, 'breakwater', 'switch')")
	})
}

// CatchUp writes a mark on the primary and waits until it is visible on the
// named replicas, all of them if none is named: what was committed before the
// call can be read there afterwards.
func (f *Fleet) CatchUp(ctx context.Context, names ...string) error {
	if len(names) == 0 {
		names = replicaNames(f.cfg.Replicas)
	}
	ctx, cancel := f.bound(ctx)
	defer cancel()
	mark := f.mark.Add(1)
	if err := f.attempt(ctx, f.adminDSN(f.primary()), fmt.Sprintf("UPDATE breakwater_mark SET n = greatest(n, %d)", mark)); err != nil {
		return fmt.Errorf("fleet: CatchUp: primary: %w", f.closedOr(err))
	}
	var nodes []*node
	for _, name := range names {
		n := f.find(name)
		if n == nil {
			return f.unknown("CatchUp", name)
		}
		nodes = append(nodes, n)
	}
	err := f.each(nodes, func(n *node) error {
		return f.await(ctx, f.adminDSN(n), fmt.Sprintf("SELECT 1 / count(*) FROM breakwater_mark WHERE n >= %d", mark))
	})
	if err != nil {
		return fmt.Errorf("fleet: CatchUp: %w", f.closedOr(err))
	}
	return nil
}

// on runs an operation on a node: alone on that node, bounded in time, ended by
// Close, and only if the node is in the state that the operation needs.
func (f *Fleet) on(ctx context.Context, what, name string, needs need, fn func(context.Context, *node) error) error {
	n := f.find(name)
	if n == nil {
		return f.unknown(what, name)
	}
	ctx, cancel := f.bound(ctx)
	defer cancel()
	n.op.Lock()
	defer n.op.Unlock()
	err := f.meets(n, needs)
	if err == nil {
		f.cfg.Log("fleet: %s %s", what, name)
		err = fn(ctx, n)
	}
	if err != nil {
		return fmt.Errorf("fleet: %s(%q): %w", what, name, f.closedOr(err))
	}
	return nil
}

// closedOr says ErrClosed where an error is only Close's doing.
func (f *Fleet) closedOr(err error) error {
	if f.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}

func (f *Fleet) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(ctx, opBudget, fmt.Errorf("not done within %v", opBudget))
	stop := context.AfterFunc(f.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

func (f *Fleet) meets(n *node, needs need) error {
	switch {
	case f.ctx.Err() != nil:
		return ErrClosed
	case needs&needsReplica != 0 && n.upstream == nil:
		return fmt.Errorf("it is the primary, which replays nothing: name one of %s", f.names(f.replicas()))
	case needs&needsRunning != 0 && !n.runningLocked():
		return errors.New("it is down: Restart it first")
	case needs&needsThawed != 0 && n.op.frozen:
		return errors.New("it is frozen: Thaw it first")
	default:
		return nil
	}
}

func (f *Fleet) unknown(what, name string) error {
	return fmt.Errorf("fleet: %s(%q): no such node: name one of %s", what, name, f.names(f.nodes))
}

func (f *Fleet) onLink(what, name string, fn func(*relay.Relay) error) error {
	n := f.find(name)
	if n == nil {
		return f.unknown(what, name)
	}
	if n.relay == nil {
		return fmt.Errorf("fleet: %s(%q): it is the primary, which has no link to an upstream: name one of %s", what, name, f.names(f.replicas()))
	}
	if f.ctx.Err() != nil {
		return fmt.Errorf("fleet: %s(%q): %w", what, name, ErrClosed)
	}
	f.cfg.Log("fleet: %s %s", what, name)
	if err := fn(n.relay); err != nil {
		return fmt.Errorf("fleet: %s(%q): %w", what, name, err)
	}
	return nil
}
