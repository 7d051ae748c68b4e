// Package prombreakwater tells Prometheus of breakers, replicas, read paths and consumers: a collector over
// their snapshots, and observers that count transitions. docs/metrics.md in the repository says of each metric what it
// means and when to worry. The directory is contrib/prometheus; the package's name leaves "prometheus" to client_golang.
//
//	metrics, err := prombreakwater.New(prombreakwater.Config{Parts: func() prombreakwater.Parts {
//		return prombreakwater.Parts{Set: set, Paths: map[string]*readpath.Router{"main": path}, Router: router}
//	}})
//	registry.MustRegister(metrics)
//
// Parts is asked at each scrape, so that parts may come, go and be replaced: the series of one that has gone go with it, and
// the counters of a node or consumer that stays never go back, though a new Router counts from 0. What is counted between
// the last scrape of an old part and its end is lost.
//
// Transitions by reason are seen by observers only: [Collector.Replicas], [Collector.Emits], [Collector.Path] and
// [Collector.Breakers] wrap the ones that the parts are made with. Without them those series are absent, and all others are there.
//
// # What is unknown
//
// It has no number. breakwater_replica_staleness_seconds{bound="hi"} is +Inf while nothing bounds it; bound="lo" is absent
// while a node's samples tell no lag (never sampled, unreachable, no replica of this primary).
// breakwater_poller_last_run_timestamp_seconds is absent until the first good sample, breakwater_breaker_call_duration_seconds where
// calls are not timed or there were none, breakwater_dead_letter_oldest_age_seconds without dead letters, and
// breakwater_endpoint_over_budget_ratio for an endpoint that is not over it.
//
// # Labels
//
// They are names from the configuration and words of this library: never the key of a call, an error's text, SQL or a connection
// string. A name that looks like one is shown as "hidden-" and a number of this process; one that is no UTF-8 is
// mended, one over 128 bytes is cut. The keys of a [breaker.Set] become labels only where [NamedKeys] asks for it.
//
// # Concurrency
//
// All methods may be called at any time from any goroutine. A scrape asks each part on a goroutine of its own and waits at most
// Config.Timeout: a part that panics or hangs is missing, with breakwater_source_up 0, and the others are told. A part
// that hangs holds one goroutine, however often it is scraped; Close waits for it. Observers take a lock for
// a moment and call the wrapped function without it.
package prombreakwater
