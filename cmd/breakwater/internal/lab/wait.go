package lab

import (
	"context"
	"time"
)

// Wait waits for d, or until ctx ends: its error says that the run was interrupted, and that nothing more may be done to the fleet.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Every calls do at intervals until ctx ends; what takes longer delays the next.
func Every(ctx context.Context, interval time.Duration, do func()) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			do()
		}
	}
}
