package config

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/emit/httpsink"
)

// A Consumer is one of consumers.
type Consumer struct {
	Lane emit.Consumer // lacks Sink and DeadLetters
	Sink Sink
}

// A Sink says how triggers get to a consumer. Two that are equal may share an httpsink.Sink.
type Sink struct {
	URL        Secret // paths and queries of webhooks are secrets
	Structured bool
	Bearer     Secret // "": no Authorization is sent
	TLS        TLS
}

// mostConns bounds the connections of a sink, the most that there can be: the bulkhead of its lane is what bounds them, and may change
// while they stay.
const mostConns = 10000

// mostConsumers bounds what a reload may cost: each consumer is checked by a Router of its own.
const mostConsumers = 1000

// mostTypes bounds how many types a consumer names, each of which is compared with the others.
const mostTypes = 1000

// New makes the sink. Nothing is connected yet.
func (s Sink) New() (*httpsink.Sink, error) {
	c := httpsink.Config{URL: string(s.URL), Structured: s.Structured, MaxConns: mostConns}
	if s.Bearer != "" {
		c.Authorization = func(context.Context) (string, error) { return "Bearer " + string(s.Bearer), nil }
	}
	if s.TLS != (TLS{}) {
		with, err := s.TLS.client()
		if err != nil {
			return nil, err
		}
		c.TLS = with
	}
	return httpsink.New(c)
}

// Host is the consumer's, with its port, and whether it speaks TLS.
func (s Sink) Host() (address string, secure bool) {
	u, err := url.Parse(string(s.URL))
	if err != nil {
		return "", false
	}
	secure = u.Scheme == "https"
	port := u.Port()
	switch {
	case port == "" && secure:
		port = "443"
	case port == "":
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port), secure
}

// client is the configuration of a client; nil for the zero TLS, which is the system's roots and no certificate.
func (t TLS) client() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil //nolint:nilnil // no configuration is none
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(t.CA)) {
			return nil, errors.New("config: the file of authorities has no certificate")
		}
	}
	if t.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(t.Cert), []byte(t.Key))
		if err != nil {
			return nil, errors.New("config: certificate and key do not fit")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// ClientTLS is what a client of the consumer's needs; nil: the system's.
func (s Sink) ClientTLS() (*tls.Config, error) { return s.TLS.client() }

// consumers reads the list.
func (r *reader) consumers(at place, c *Config) {
	items := r.list(at)
	if at.node.Kind == yaml.SequenceNode && len(items) == 0 {
		r.fault(at, "is empty: name a consumer, or remove the key")
	}
	if len(items) > mostConsumers {
		r.fault(at, "has %d consumers: name at most %d", len(items), mostConsumers)
		return
	}
	c.Consumers = make([]Consumer, len(items))
	for i, item := range items {
		if r.usable(item) {
			given := r.consumer(item, &c.Consumers[i])
			r.places[fmt.Sprintf("name: %d", i)] = given["name"]
			r.places[fmt.Sprintf("url: %d", i)] = firstOf(given, "url", "url_env")
		}
	}
}

// consumer reads one, and returns its keys.
func (r *reader) consumer(at place, c *Consumer) map[string]place {
	before := maps.Clone(r.places) // what the libraries call Timeout is this consumer's until it is asked about
	defer func() { r.places = before }()
	at.secret = true
	lane := &c.Lane
	var address, token credential
	var tokenFile string
	share := func(v float64) bool { return v > 0 && v <= 1 }
	fields := []field{
		shown(name("name", &lane.Name)),
		shown(texts("types", mostTypes, &lane.Types)),
		shown(word("mode", []string{"binary", "structured"}, func(mode string) { c.Sink.Structured = mode == "structured" })),
		shown(duration("timeout", "emit: Timeout", &lane.Timeout, span{least: time.Millisecond, usual: "200ms"})),
		shown(duration("slow", "emit: Slow", &lane.Slow, span{least: 100 * time.Microsecond, usual: "50ms"})),
		shown(whole("bulkhead", "emit: Bulkhead", &lane.Bulkhead, mostConcurrent, "16")),
		shown(yes("ordered", &lane.Ordered)),
		text("bearer_token_file", "", &tokenFile),
		text("bearer_token_env", "httpsink: Authorization", &token.env),
		section("tls", func(r *reader, at place) { r.clientTLS(at, &c.Sink.TLS) }),
		shown(section("replay", func(r *reader, at place) {
			r.mapping(at,
				number("share", "emit: Replay.Share", &lane.Replay.Share, share, "a share over 0, at most 1, such as 0.2"),
				whole("max_attempts", "emit: Replay.MaxAttempts", &lane.Replay.MaxAttempts, math.MaxInt32, "10"),
				yes("manual", &lane.Replay.Manual),
			)
		})),
		shown(section("open", func(r *reader, at place) {
			lane.Breaker.Open = emit.DefaultOpen()
			r.mapping(at,
				duration("base", "breaker: Open.Base", &lane.Breaker.Open.Base, span{usual: "100ms"}),
				duration("max", "breaker: Open.Max", &lane.Breaker.Open.Max, span{usual: "2s"}),
				duration("jitter", "breaker: Open.Jitter", &lane.Breaker.Open.Jitter, span{usual: "20ms", zero: true}),
			)
		})),
	}
	given := r.mapping(at, append(fields, address.fields("url")...)...)
	if given == nil {
		return nil
	}
	r.required(at, given, "name", "give each consumer a name of its own")
	c.Sink.URL = Secret(r.either(at, given, address, "url", "httpsink: URL", "the consumer's URL"))
	if given["url"].node == nil && given["url_env"].node == nil {
		r.fault(place{at.path + ".url", at.node, true}, "is missing: give url, or url_env with the name of an environment variable that holds it")
	}
	c.Sink.Bearer = r.token(given, token.env, tokenFile)
	r.known(c.Sink)
	r.places["httpsink: TLS"] = given["tls"]
	r.askConsumer(at, given, *c)
	return given
}

// firstOf is the first of those keys that is there.
func firstOf(given map[string]place, keys ...string) (at place) {
	for _, key := range keys {
		if at, ok := given[key]; ok {
			return at
		}
	}
	return at
}

// known notes what of a sink must never be shown: all of its URL but scheme and host.
func (r *reader) known(s Sink) {
	r.secret(string(s.Bearer))
	u, err := url.Parse(string(s.URL))
	if err != nil {
		return
	}
	if len(u.EscapedPath()) > 1 && u.RawQuery != "" {
		r.secret(u.RequestURI())
	}
	r.secret(u.RawQuery)
	for _, values := range u.Query() {
		for _, v := range values {
			r.secret(v)
		}
	}
	for piece := range strings.SplitSeq(u.EscapedPath(), "/") {
		if len(piece) >= 16 { // a token in a path; shorter pieces are words
			r.secret(piece)
		}
	}
}

// askConsumer has the libraries check one consumer.
func (r *reader) askConsumer(at place, given map[string]place, c Consumer) {
	for _, section := range []string{"settings", "consumers"} { // where what has no place of its own is told
		r.places["section: "+section] = at
	}
	r.places["limit: Limit"] = r.places["emit: Bulkhead"]
	if c.Sink.URL != "" && !r.faulty[at.path+".tls"] {
		_, err := c.Sink.New()
		for _, f := range leaves(err) {
			r.tell(f.Error())
		}
	}
	c.Lane.Name = "consumer"
	c.Lane.Sink = emit.SinkFunc(func(context.Context, emit.Trigger) error { return nil })
	told := false
	for _, f := range leaves(laneFault(c.Lane)) {
		for line := range strings.Lines(f.Error()) {
			said := laneWords(strings.TrimSuffix(line, "\n"))
			if told && strings.HasPrefix(said, "breaker: Rules[") {
				continue // it follows from slow
			}
			told = true
			r.tell(said)
		}
	}
	r.starved(at, given, c.Lane)
}

// laneFault is what a Router says to this lane.
func laneFault(c emit.Consumer) error {
	store, err := emit.NewRing(emit.RingConfig{Letters: 1, Bytes: 4096, Reserved: -1})
	if err != nil {
		return err
	}
	router, err := emit.New(emit.Config{Consumers: []emit.Consumer{c}, DeadLetters: store})
	if err == nil {
		return router.Close()
	}
	return err
}

// laneWords is a fault of a lane as one of the package that found it.
func laneWords(said string) string {
	said = strings.TrimPrefix(said, `emit: consumer "consumer": `)
	said = strings.TrimPrefix(said, "Bulkhead: ")
	if strings.HasPrefix(said, "breaker: ") || strings.HasPrefix(said, "limit: ") {
		return said
	}
	return "emit: " + said
}

// What the rules of a lane need: the calls of a window that judges its P99, and the longest such window.
const (
	callsOfWindow  = 100
	longestWindow  = time.Minute
	defaultTimeout = 200 * time.Millisecond
	defaultHold    = 16
)

// starved tells of a bulkhead so small, or a timeout so long, that calls which all hang fill no window for over a minute: the
// P99 would say nothing in an outage.
func (r *reader) starved(at place, given map[string]place, c emit.Consumer) {
	timeout, hold := c.Timeout, c.Bulkhead
	if timeout == 0 {
		timeout = defaultTimeout
	}
	if hold == 0 {
		hold = defaultHold
	}
	window := callsOfWindow * timeout / time.Duration(hold)
	if window <= longestWindow || r.faulty[at.path+".timeout"] || r.faulty[at.path+".bulkhead"] {
		return
	}
	where, ok := given["bulkhead"]
	if !ok {
		where = given["timeout"]
	}
	least := (callsOfWindow*timeout + longestWindow - 1) / longestWindow
	r.fault(where, "starves the latency rule: it needs %d calls, and a bulkhead of %d with a timeout of %v lets that many hanging ones through in %v (%d × %v / %d); set bulkhead to at least %d, or timeout to at most %v",
		callsOfWindow, hold, timeout, window, callsOfWindow, timeout, hold, least, (longestWindow * time.Duration(hold) / callsOfWindow).Truncate(time.Millisecond))
}

// consumerNames finds those that two have: a breaker is told by its name.
func (r *reader) consumerNames(c *Config) {
	seen := map[string]string{}
	for i, n := range c.DB.Replicas {
		if n.Name != "" {
			seen[n.Name] = fmt.Sprintf("replicas[%d]", i)
		}
	}
	for i := range c.Consumers {
		name := c.Consumers[i].Lane.Name
		first, twice := seen[name]
		switch {
		case name == "":
		case twice:
			r.fault(r.places[fmt.Sprintf("name: %d", i)], "is %q, as is that of %s: breakers are told by name, give each one of its own", name, first)
		default:
			seen[name] = fmt.Sprintf("consumers[%d]", i)
		}
	}
}
