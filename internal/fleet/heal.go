package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/breakwater-go/breakwater/internal/relay"
)

// Heal undoes every fault: it thaws, mends links, starts what is down, resumes
// replay, and makes a promoted replica, and those below it, anew from a copy of
// the primary (by pg_basebackup). It returns when every replica has what was committed on the
// primary before.
func (f *Fleet) Heal(ctx context.Context) error {
	for _, n := range f.replicas() {
		mend := func(r *relay.Relay) error { return errors.Join(r.SetMode(relay.Pass), r.SetDelay(0)) }
		if err := f.onLink("Heal", n.name, mend); err != nil {
			return err
		}
	}
	if err := f.on(ctx, "Heal", primaryName, 0, f.reviveLocked); err != nil {
		return err
	}
	err := f.each(f.replicas(), func(n *node) error { return f.on(ctx, "Heal", n.name, 0, f.healLocked) })
	if err != nil {
		return err
	}
	return f.CatchUp(ctx)
}

func (f *Fleet) reviveLocked(ctx context.Context, n *node) error {
	if err := n.thawLocked(); err != nil {
		return err
	}
	if n.runningLocked() {
		return nil
	}
	return f.upLocked(ctx, n, nil)
}

func (f *Fleet) healLocked(ctx context.Context, n *node) error {
	if n.op.diverged {
		return f.rebuildLocked(ctx, n)
	}
	if err := f.reviveLocked(ctx, n); err != nil {
		return err
	}
	if n.op.applyDelay > 0 {
		if err := f.setApplyDelayLocked(ctx, n, 0); err != nil {
			return err
		}
	}
	if n.op.paused {
		return f.resumeLocked(ctx, n)
	}
	return nil
}

// rebuildLocked replaces a replica's data by a copy of the running primary's,
// since a promoted server's history has left the primary's for good.
func (f *Fleet) rebuildLocked(ctx context.Context, n *node) error {
	if !executable(f.bin.path("pg_basebackup")) {
		return fmt.Errorf("a promotion can be undone only by pg_basebackup, which is not in %s: install PostgreSQL's client programs, or start a new fleet", f.bin.Dir)
	}
	if n.op.proc != nil {
		if err := n.op.proc.quit(); err != nil {
			return err
		}
	}
	n.op.frozen, n.op.applyDelay = false, 0
	if err := os.RemoveAll(n.data); err != nil {
		return err
	}
	if err := f.makeOwned(n.data); err != nil {
		return err
	}
	cmd := f.command("pg_basebackup", "-D", n.data, "-h", host, "-p", strconv.Itoa(f.primary().port), "-U", adminRole,
		"-c", "fast", "-X", "stream", "--no-sync", "--no-password")
	cmd.Env = append(cmd.Env, "PGPASSWORD="+f.adminPassword) // not an argument, which every user can see
	out, err := f.run(ctx, cmd)
	if err != nil {
		return fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	if err := f.makeStandby(n); err != nil {
		return err
	}
	if err := f.upLocked(ctx, n, nil); err != nil {
		return err
	}
	n.op.diverged = false
	return nil
}
