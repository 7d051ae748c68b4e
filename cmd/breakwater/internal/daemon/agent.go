package daemon

import (
	"context"
	"fmt"
	"net"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/proxycheck"
	"github.com/breakwater-go/breakwater/replica"
)

// replicas is what runs now; nil: none.
func (d *daemon) replicas() *replica.Set { return d.running.Load().Set }

// serveAgent answers HAProxy's agent checks until the function that it returns is called, which waits.
func (d *daemon) serveAgent(ctx context.Context) (stop func(), err error) {
	at := d.Config.Daemon.AgentListen
	if at == "" {
		return func() {}, nil
	}
	agent, err := proxycheck.NewAgent(proxycheck.AgentConfig{Set: d.replicas, Redact: d.redact.Text})
	if err != nil {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", at)
	if err != nil {
		return nil, d.Config.Place("agent_listen", listenFault(at, err))
	}
	d.owned.Go(func() {
		if err := agent.Serve(ln); err != nil {
			d.hub.Fault("agent check", fmt.Errorf("it ended: %w", err))
		}
	})
	return func() { _ = agent.Close() }, nil // it returns nil
}
