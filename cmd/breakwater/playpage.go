package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/daemon"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/flight"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/playground"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/web"
	prombreakwater "github.com/breakwater-go/breakwater/contrib/prometheus"
)

// labPage is the lab as a person plays with it, and the interface to it.
type labPage struct {
	hub     *api.Hub
	redact  *api.Redactor
	metrics *prombreakwater.Collector
	flight  *flight.Recorder

	lab      *playground.Playground // nil until it is open; then immutable, as are the others
	standard *api.Standard
	server   *api.Server
}

// Status is how things stand: that of a process, and what the lab alone knows.
func (p *labPage) Status() api.Status {
	st := p.standard.Status()
	st.Traffic, st.Lab = p.lab.Traffic(), new(p.lab.Status())
	return st
}

// Parts is what runs.
func (p *labPage) Parts() api.Parts { return p.lab.Parts() }

// playPage plays until ctx ends, or --for has passed, and serves the page.
func (f *labFlags) playPage(ctx context.Context, fleet lab.Fleet, ln net.Listener, out, errOut io.Writer) error {
	screen := f.screen(ctx, out)
	defer screen.close()
	p, err := newLabPage(fleet)
	if err != nil {
		return err
	}
	defer p.flight.Close()
	if err := p.open(ctx, f, fleet, screen); err != nil {
		return f.unlessInterrupted(ctx, err)
	}
	defer p.standard.Close()
	fmt.Fprintf(errOut, "open http://%s/\n", ln.Addr())
	if f.headless {
		addresses(errOut, fleet)
	} else {
		introduce(errOut, fleet)
	}
	result, err := p.run(ctx, ln, screen)
	if err != nil {
		return f.unlessInterrupted(ctx, err)
	}
	return f.verdict(result, screen, errOut)
}

// newLabPage begins to record what precedes an opening.
func newLabPage(fleet lab.Fleet) (p *labPage, err error) {
	p = &labPage{redact: &api.Redactor{}}
	p.redact.Add(playground.Secrets(fleet)...)
	p.hub = api.NewHub(p.redact)
	p.metrics, err = prombreakwater.New(prombreakwater.Config{Version: version(), Parts: func() prombreakwater.Parts { return daemon.MetricParts(p.lab.Parts()) }})
	if err != nil {
		return nil, err
	}
	p.flight, err = flight.Start(flight.Config{})
	return p, err
}

// open opens the playground, and the interface to it. On an error nothing is left behind but the recorder.
func (p *labPage) open(ctx context.Context, f *labFlags, fleet lab.Fleet, screen screen) (err error) {
	p.lab, err = playground.Open(ctx, playground.Config{
		Fleet: fleet, Options: f.Options, Child: child, Tell: screen.line, Publish: func(e api.Event) { p.hub.Publish(e) }, Redact: p.redact,
		Replica: p.metrics.Replicas(p.hub.Replicas()), Path: p.metrics.Path(daemon.PathName, p.hub.Path()), Emit: p.metrics.Emits(p.hub.Consumers()),
	})
	if err != nil {
		return err
	}
	p.standard = api.NewStandard(api.StandardConfig{Hub: p.hub, Redact: p.redact, Parts: p.lab.Parts, About: func() api.About {
		return api.About{Mode: "lab", Version: version(), Started: f.Started, Fleet: fleet.Version(), Simulated: fleet.Version() == fleetSimulated}
	}})
	p.server, err = api.New(api.Config{Hub: p.hub, Source: p, Actions: p.standard, Lab: p.lab, Page: web.Handler(), Routes: p.routes(), Redact: p.redact})
	if err != nil {
		p.standard.Close()
		return errors.Join(err, abandon(ctx, p.lab))
	}
	return nil
}

// routes are the parts of the interface besides those of package api, as the daemon has them.
func (p *labPage) routes() []api.Route {
	metrics := daemon.MetricsHandler(p.hub, func() *api.Server { return p.server }, p.metrics)
	return append(p.flight.Routes(), api.Route{Pattern: "GET /metrics", Handler: metrics})
}

// run serves and plays to the end of both.
func (p *labPage) run(ctx context.Context, ln net.Listener, screen screen) (lab.Result, error) {
	var owned sync.WaitGroup
	ending, end := context.WithCancel(context.WithoutCancel(ctx))
	owned.Go(func() { p.flight.Run(ending, p.hub) })
	served := make(chan error, 1)
	owned.Go(func() { served <- p.server.Serve(ln) })
	result, err := p.lab.Run(ctx, func(l lab.Live) { screen.live(l) })
	p.hub.Publish(api.Event{Kind: api.KindStop, Text: "the lab ends"})
	p.server.Close() //nolint:contextcheck // it bounds itself
	end()
	owned.Wait()
	return result, errors.Join(err, <-served)
}

// abandon ends a playground before it has begun.
func abandon(ctx context.Context, p *playground.Playground) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	_, err := p.Run(ctx, nil)
	return err
}

func (f *labFlags) unlessInterrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return f.interrupted()
	}
	return err
}
