package daemon

import (
	"context"
	"io"
	"log/slog"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/config"
)

// redacting takes secrets out of what is written, line by line.
type redacting struct {
	out    io.Writer
	redact *api.Redactor
}

// Write writes a line.
func (w redacting) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.out, w.redact.Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (d *daemon) newLog() *slog.Logger {
	d.level.Set(levelOf(d.Config))
	o := &slog.HandlerOptions{Level: &d.level}
	out := redacting{d.Log, d.redact}
	if d.Config.Daemon.Log.JSON {
		return slog.New(slog.NewJSONHandler(out, o))
	}
	return slog.New(slog.NewTextHandler(out, o))
}

func levelOf(c *config.Config) slog.Level {
	var l slog.Level
	_ = l.UnmarshalText([]byte(c.Daemon.Log.Level)) // it is one of slog's words
	return l
}

// logEvents is a reader of the hub, which does not wait for it. Once ctx has ended it writes what there still is.
func (d *daemon) logEvents(ctx context.Context) {
	var after uint64
	for {
		events, missed, err := d.hub.Next(ctx, after)
		if err != nil {
			return
		}
		if missed > 0 {
			d.log.Warn("events were missed", "count", missed)
		}
		for i := range events {
			d.log.Info(events[i].Kind, "id", events[i].ID, "name", events[i].Name, "from", events[i].From, "to", events[i].To, "text", events[i].Text, "error", events[i].Error)
			after = events[i].ID
		}
	}
}
