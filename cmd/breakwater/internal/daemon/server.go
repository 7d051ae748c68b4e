package daemon

import (
	"crypto/tls"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/gateway"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/proxycheck"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/web"
	"github.com/breakwater-go/breakwater/contrib/boltletters"
	"github.com/breakwater-go/breakwater/emit"
)

// source adds to the status what the daemon alone knows.
type source struct{ d *daemon }

// Parts is what runs.
func (s source) Parts() api.Parts { return s.d.standard.Parts() }

// Status is everything at one moment.
func (s source) Status() api.Status {
	st := s.d.standard.Status()
	st.Reload = s.d.reloaded.Load()
	return st
}

func (d *daemon) newServer() (*api.Server, error) {
	emits, err := gateway.New(gateway.Config{Router: func() *emit.Router { return d.running.Load().Router }, Tracer: d.spans.Tracer(), Consumers: len(d.Config.Consumers) > 0})
	if err != nil {
		return nil, err
	}
	with, err := d.serverTLS()
	if err != nil {
		return nil, err
	}
	auth := d.Config.Daemon.Auth
	c := api.Config{
		Hub: d.hub, Source: source{d}, Actions: d.standard, Redact: d.redact, TLS: with, Page: web.Handler(),
		Ready: func() error {
			if why := d.unready.Load(); why != nil {
				return *why
			}
			return nil
		},
		Routes: []api.Route{
			{Pattern: "POST /api/v1/emit", Handler: emits, Intake: true},
			{Pattern: "/replica/{name}", Handler: proxycheck.Handler(d.replicas, d.redact.Text), Open: auth.OpenReplica},
			{Pattern: "GET /metrics", Handler: MetricsHandler(d.hub, func() *api.Server { return d.server }, d.metrics, d.reloads), Open: auth.OpenMetrics},
		},
	}
	if d.flight != nil {
		c.Routes = append(c.Routes, d.flight.Routes()...)
	}
	if auth.Bearer != "" {
		c.Token = func() string { return string(d.inForce.Load().Daemon.Auth.Bearer) }
	}
	return api.New(c)
}

// serverTLS is the listener's, whose certificates are those in force at each handshake.
func (d *daemon) serverTLS() (*tls.Config, error) {
	c, err := d.Config.Daemon.Auth.Server()
	if err != nil || c == nil {
		return c, err
	}
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return d.inForce.Load().Daemon.Auth.Server() }
	return c, nil
}

// newObservers count first, then tell the hub.
func (d *daemon) newObservers() observers {
	nodes := d.hub.Replicas()
	nodes.OnSample = d.pulse.heard
	if span := d.spans.Tracer().OnTransition(api.ScopeReplica); span != nil {
		tell := nodes.OnTransition
		nodes.OnTransition = func(t breaker.Transition) {
			tell(t)
			span(t)
		}
	}
	return observers{
		replicas: d.metrics.Replicas(nodes), path: d.metrics.Path(PathName, d.hub.Path()), emits: d.metrics.Emits(d.hub.Consumers()),
		consumer: d.spans.Tracer().Consumer,
		letters: boltletters.Observer{
			Quarantined:  func(q boltletters.Quarantine) { d.hub.Fault("dead letters: quarantine "+q.Path, q.Err) },
			BadRecord:    func(b boltletters.BadRecord) { d.hub.Fault("dead letters: unreadable letter of "+b.Consumer, b.Err) },
			CommitFailed: func(err error) { d.hub.Fault("dead letters: commit", err) },
		},
	}
}
