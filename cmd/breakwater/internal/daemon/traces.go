package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/flight"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/telemetry"
)

// exportWithin bounds the sending of the last spans.
const exportWithin = 3 * time.Second

// openTraces begins the export of spans, and the recording before openings, as far as the configuration has them.
func (d *daemon) openTraces() (err error) {
	if t := d.Config.Daemon.Tracing; t.Endpoint != "" {
		c := telemetry.Config{
			Endpoint: t.Endpoint, Headers: string(t.Headers), SampleRatio: t.SampleRatio, Insecure: t.Insecure, Timeout: t.Timeout, Version: d.Version,
			Failed: func(err error) { d.hub.Fault("tracing", err) },
		}
		if t.SampleRatio == 0 {
			c.SampleRatio = -1 // none; 0 is the default there
		}
		d.redact.Add(c.Secrets()...)
		if d.spans, err = telemetry.Start(context.Background(), c); err != nil {
			return d.Config.Place("tracing", fmt.Sprintf("cannot be used: %v", err))
		}
	}
	if !d.Config.Daemon.FlightRecorder {
		return nil
	}
	if d.flight, err = flight.Start(flight.Config{}); err != nil {
		d.closeTraces()
		return d.Config.Place("flight_recorder", fmt.Sprintf("cannot begin: %v", err))
	}
	return nil
}

// closeTraces sends the last spans, and ends the recording.
func (d *daemon) closeTraces() {
	if d.flight != nil {
		d.flight.Close()
	}
	if d.spans == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), exportWithin)
	defer cancel()
	_ = d.spans.Close(ctx) // what could not be sent is lost, and nobody is there to be told
}
