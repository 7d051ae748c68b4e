package eventlog

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
)

// The formats of lines.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// Config says how lines are written. Output is required.
type Config struct {
	// Output takes the lines.
	Output io.Writer
	// Format is "text" or "json". Default: "text".
	Format string
	// Level is the least one that is written: "debug", "info", "warn" or "error", in either case. Default: "info".
	Level string
	// Redact takes the secrets out of messages and of all values. Default: nothing is known to be one.
	Redact *api.Redactor
}

// New makes a logger, for events and for all else that the process has to say. The error names every fault of the Config.
func New(c Config) (*slog.Logger, error) {
	level, err := levelOf(c.Level)
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: redacting(c.Redact)}
	switch c.Format {
	case "", FormatText:
		return slog.New(slog.NewTextHandler(c.Output, o)), err
	case FormatJSON:
		return slog.New(slog.NewJSONHandler(c.Output, o)), err
	}
	return nil, errors.Join(err, fmt.Errorf("log format is %q: use text or json", c.Format))
}

func levelOf(name string) (level slog.Level, err error) {
	switch name {
	case "":
		return slog.LevelInfo, nil
	case "debug", "info", "warn", "error", "DEBUG", "INFO", "WARN", "ERROR":
		err = level.UnmarshalText([]byte(name))
		return level, err
	}
	return level, fmt.Errorf("log level is %q: use debug, info, warn or error", name)
}

// redacting takes secrets out of every text that a handler writes, the message too. Values that are no texts become texts only where they may
// hold one.
func redacting(r *api.Redactor) func([]string, slog.Attr) slog.Attr {
	return func(_ []string, a slog.Attr) slog.Attr {
		switch a.Value.Kind() {
		case slog.KindString:
			a.Value = slog.StringValue(r.Text(a.Value.String()))
		case slog.KindAny:
			if _, isLevel := a.Value.Any().(slog.Level); !isLevel {
				a.Value = slog.StringValue(r.Text(fmt.Sprint(a.Value.Any())))
			}
		default:
		}
		return a
	}
}
