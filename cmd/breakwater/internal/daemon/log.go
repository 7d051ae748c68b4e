package daemon

import (
	"context"
	"log/slog"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/config"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/eventlog"
)

// A leveled handler has a level that can change while lines are written.
type leveled struct {
	slog.Handler
	level *slog.LevelVar
}

// Enabled heeds the level of this moment.
func (l leveled) Enabled(_ context.Context, level slog.Level) bool { return level >= l.level.Level() }

// WithAttrs keeps the level.
func (l leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{l.Handler.WithAttrs(attrs), l.level}
}

// WithGroup keeps the level.
func (l leveled) WithGroup(name string) slog.Handler {
	return leveled{l.Handler.WithGroup(name), l.level}
}

func (d *daemon) newLog() (*slog.Logger, error) {
	d.level.Set(levelOf(d.Config))
	format := eventlog.FormatText
	if d.Config.Daemon.Log.JSON {
		format = eventlog.FormatJSON
	}
	log, err := eventlog.New(eventlog.Config{Output: d.Log, Format: format, Level: "debug", Redact: d.redact})
	if err != nil {
		return nil, err
	}
	return slog.New(leveled{log.Handler(), &d.level}), nil
}

func levelOf(c *config.Config) slog.Level {
	var l slog.Level
	_ = l.UnmarshalText([]byte(c.Daemon.Log.Level)) // it is one of slog's words
	return l
}
