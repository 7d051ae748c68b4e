package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/playground"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/web"
)

// labSource is the status of the lab: that of a process, and what the lab alone knows.
type labSource struct {
	*api.Standard

	lab *playground.Playground
}

// Status is how things stand.
func (s labSource) Status() api.Status {
	st := s.Standard.Status()
	st.Traffic, st.Lab = s.lab.Traffic(), new(s.lab.Status())
	return st
}

// playPage plays until ctx ends, or --for has passed, and serves the page.
func (f *labFlags) playPage(ctx context.Context, fleet lab.Fleet, ln net.Listener, out, errOut io.Writer) error {
	screen := f.screen(ctx, out)
	defer screen.close()
	redact := &api.Redactor{}
	redact.Add(playground.Secrets(fleet)...)
	hub := api.NewHub(redact)
	p, err := playground.Open(ctx, playground.Config{
		Fleet: fleet, Options: f.Options, Child: child, Tell: screen.line, Publish: func(e api.Event) { hub.Publish(e) },
		Replica: hub.Replicas(), Path: hub.Path(), Emit: hub.Consumers(), Redact: redact,
	})
	if err != nil {
		return f.unlessInterrupted(ctx, err)
	}
	std := api.NewStandard(api.StandardConfig{Hub: hub, Redact: redact, Parts: p.Parts, About: func() api.About {
		return api.About{Mode: "lab", Version: version(), Started: f.Started, Fleet: fleet.Version(), Simulated: fleet.Version() == fleetSimulated}
	}})
	defer std.Close()
	server, err := api.New(api.Config{Hub: hub, Source: labSource{std, p}, Actions: std, Lab: p, Page: web.Handler(), Routes: labRoutes(), Redact: redact})
	if err != nil {
		return errors.Join(err, abandon(ctx, p))
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	fmt.Fprintf(errOut, "open http://%s/\n", ln.Addr())
	if f.headless {
		addresses(errOut, fleet)
	} else {
		introduce(errOut, fleet)
	}
	result, err := p.Run(ctx, func(l lab.Live) { screen.live(l) })
	hub.Publish(api.Event{Kind: api.KindStop, Text: "the lab ends"})
	server.Close() //nolint:contextcheck // it bounds itself
	if err = errors.Join(err, <-served); err != nil {
		return f.unlessInterrupted(ctx, err)
	}
	return f.verdict(result, screen, errOut)
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

// labRoutes are the parts of the interface besides those of package api.
func labRoutes() []api.Route { return nil }
