package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	// attemptTimeout bounds one statement: a frozen server answers none.
	attemptTimeout = 5 * time.Second
	pollInterval   = 20 * time.Millisecond
	retryInterval  = 100 * time.Millisecond
)

// errEnded means that a server ended while it was awaited.
var errEnded = errors.New("server ended")

// upLocked starts n's server and waits until it answers. What may pass by
// itself is tried again until ctx ends: a lock file or shared memory of a
// predecessor that is still dying, a taken port. onTaken, if not nil, chooses
// another port then.
func (f *Fleet) upLocked(ctx context.Context, n *node, onTaken func(*node) error) error {
	for {
		offset := n.logSize()
		err := f.launchLocked(ctx, n)
		if err == nil {
			return nil
		}
		said := n.tail(offset)
		if !errors.Is(err, errEnded) || !passes(said) {
			return fmt.Errorf("%w; its log: %s", err, said)
		}
		if taken(said) && onTaken != nil {
			if err := onTaken(n); err != nil {
				return err
			}
		}
		f.cfg.Log("fleet: %s: trying again: %s", n.name, said)
		if err := sleep(ctx, retryInterval); err != nil {
			return fmt.Errorf("%w; its log: %s", err, said)
		}
	}
}

func passes(said string) bool {
	return taken(said) || strings.Contains(said, "lock file") || strings.Contains(said, "pre-existing shared memory")
}

func taken(said string) bool { return strings.Contains(said, "Address already in use") }

func (f *Fleet) launchLocked(ctx context.Context, n *node) error {
	if err := n.writeSettings(f.adminPassword, f.account); err != nil {
		return err
	}
	p, err := f.spawn(n)
	if err != nil {
		return err
	}
	n.op.proc, n.op.frozen, n.op.paused = p, false, false
	return f.awaitServer(ctx, p, f.adminDSN(n), "SELECT 1")
}

func (f *Fleet) spawn(n *node) (*process, error) {
	log, err := os.OpenFile(n.log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the server has its own
	cmd := f.command("postgres", "-D", n.data)
	cmd.Stdout, cmd.Stderr = log, log
	if err := f.spawner.start(cmd); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // how it ended says its log
	}()
	return p, nil
}

// awaitServer runs query until it succeeds, p has ended, or ctx ends.
func (f *Fleet) awaitServer(ctx context.Context, p *process, dsn, query string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.ended: // an attempt may hang in whoever else has the port
			cancel(errEnded)
		case <-ctx.Done():
		}
	}()
	return f.await(ctx, dsn, query)
}

// await runs query until it succeeds or ctx ends.
func (f *Fleet) await(ctx context.Context, dsn, query string) error {
	for {
		err := f.attempt(ctx, dsn, query)
		if err == nil {
			return nil
		}
		if ctxErr := sleep(ctx, pollInterval); ctxErr != nil {
			return fmt.Errorf("%w; last answer: %w", ctxErr, err)
		}
	}
}

func (f *Fleet) attempt(ctx context.Context, dsn, query string) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return f.cfg.SQL(ctx, dsn, query)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
