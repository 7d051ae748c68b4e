package daemon

import (
	"crypto/tls"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/gateway"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/proxycheck"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/web"
	"github.com/breakwater-go/breakwater/contrib/boltletters"
	prombreakwater "github.com/breakwater-go/breakwater/contrib/prometheus"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/readpath"
)

// pathName is the label of the one read path that a file has.
const pathName = "main"

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
	emits, err := gateway.New(gateway.Config{Router: func() *emit.Router { return d.running.Load().Router }, Tracer: d.spans.Tracer()})
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
			{Pattern: "GET /metrics", Handler: d.metricsHandler(), Open: auth.OpenMetrics},
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

func (d *daemon) metricsConfig() prombreakwater.Config {
	return prombreakwater.Config{
		Version: d.Version, NoPublished: !d.Config.Daemon.PublishedNames,
		Parts: func() prombreakwater.Parts {
			p := d.running.Load()
			out := prombreakwater.Parts{Set: p.Set, Router: p.Router}
			if p.Path != nil {
				out.Paths = map[string]*readpath.Router{pathName: p.Path}
			}
			return out
		},
	}
}

// metricsHandler tells of the parts, of the process and of the interface itself.
func (d *daemon) metricsHandler() http.Handler {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	counter := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value)
	}
	all := prometheus.NewRegistry()
	all.MustRegister(
		d.metrics, d.reloads, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("breakwater_event_stream_clients", "Clients that read the stream of events now.", func() float64 { return float64(d.server.Stats().Clients) }),
		counter("breakwater_event_stream_cut_off_total", "Clients of the stream of events that were cut off since they did not read.",
			func() float64 { return float64(d.server.Stats().CutOff) }),
		counter("breakwater_event_stream_refused_total", "Clients of the stream of events that were refused since there were too many.",
			func() float64 { return float64(d.server.Stats().Refused) }),
		counter("breakwater_events_total", "Events of this process.", func() float64 { return float64(d.hub.Last()) }),
		counter("breakwater_http_panics_total", "Panics of handlers.", func() float64 { return float64(d.server.Stats().Panics) }),
	)
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
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
		replicas: d.metrics.Replicas(nodes), path: d.metrics.Path(pathName, d.hub.Path()), emits: d.metrics.Emits(d.hub.Consumers()),
		consumer: d.spans.Tracer().Consumer,
		letters: boltletters.Observer{
			Quarantined:  func(q boltletters.Quarantine) { d.hub.Fault("dead letters: quarantine "+q.Path, q.Err) },
			BadRecord:    func(b boltletters.BadRecord) { d.hub.Fault("dead letters: unreadable letter of "+b.Consumer, b.Err) },
			CommitFailed: func(err error) { d.hub.Fault("dead letters: commit", err) },
		},
	}
}
