package daemon

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	prombreakwater "github.com/breakwater-go/breakwater/contrib/prometheus"
	"github.com/breakwater-go/breakwater/readpath"
)

// PathName is the label of the one read path that a process has.
const PathName = "main"

// MetricParts are the parts of a process as the collector wants them.
func MetricParts(p api.Parts) prombreakwater.Parts {
	out := prombreakwater.Parts{Set: p.Set, Router: p.Router}
	if p.Path != nil {
		out.Paths = map[string]*readpath.Router{PathName: p.Path}
	}
	return out
}

// MetricsHandler tells of the process, of its interface over HTTP, and of what else is given: the daemon's and the lab's GET /metrics.
// server is asked at each scrape.
func MetricsHandler(hub *api.Hub, server func() *api.Server, more ...prometheus.Collector) http.Handler {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	counter := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value)
	}
	all := prometheus.NewRegistry()
	all.MustRegister(more...)
	all.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("breakwater_event_stream_clients", "Clients that read the stream of events now.", func() float64 { return float64(server().Stats().Clients) }),
		counter("breakwater_event_stream_cut_off_total", "Clients of the stream of events that were cut off since they did not read.",
			func() float64 { return float64(server().Stats().CutOff) }),
		counter("breakwater_event_stream_refused_total", "Clients of the stream of events that were refused since there were too many.",
			func() float64 { return float64(server().Stats().Refused) }),
		gauge("breakwater_http_connections", "Connections that are served now.", func() float64 { return float64(server().Stats().Conns) }),
		counter("breakwater_http_connections_waited_total", "Connections that waited since as many were served as may be.",
			func() float64 { return float64(server().Stats().Waited) }),
		counter("breakwater_events_total", "Events of this process.", func() float64 { return float64(hub.Last()) }),
		counter("breakwater_http_panics_total", "Panics of handlers.", func() float64 { return float64(server().Stats().Panics) }),
	)
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}
