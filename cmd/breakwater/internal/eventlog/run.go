package eventlog

import (
	"context"
	"log/slog"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
)

// Run writes every event of the Hub, the oldest that it keeps first, until ctx ends, and after that those that were published until then. Of events that the Hub
// has dropped before they could be written it says how many there were.
func Run(ctx context.Context, hub *api.Hub, log *slog.Logger) {
	w := writer{hub: hub, handler: log.Handler()}
	for ctx.Err() == nil {
		_ = w.write(ctx) // it fails when ctx ends
	}
	for last := hub.Last(); w.after < last; {
		if w.write(ctx) != nil { // there is nothing to wait for
			return
		}
	}
}

// A writer has written the events up to an ID.
type writer struct {
	hub     *api.Hub
	handler slog.Handler
	after   uint64
}

// write waits for events and writes them.
func (w *writer) write(ctx context.Context) error {
	events, missed, err := w.hub.Next(ctx, w.after)
	if err != nil {
		return err
	}
	if missed > 0 {
		w.line(ctx, missedLine(&events[0], missed))
	}
	for i := range events {
		w.line(ctx, line(&events[i]))
		w.after = events[i].ID
	}
	return nil
}

// line writes a record. A log that cannot be written has nobody to tell.
func (w *writer) line(ctx context.Context, r slog.Record) {
	if w.handler.Enabled(ctx, r.Level) {
		_ = w.handler.Handle(ctx, r)
	}
}
