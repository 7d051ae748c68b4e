package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/telemetry"
	"github.com/breakwater-go/breakwater/contrib/boltletters"
	"github.com/breakwater-go/breakwater/emit"
)

// Daemon is what only the daemon heeds: who may ask it, and what it tells.
type Daemon struct {
	Listen      string // default 127.0.0.1:8080
	AgentListen string // of the check by agent; "": none
	Auth        Auth
	// PublishedNames says whether the metrics of REQ-O1 are there beside our own. Default: true.
	PublishedNames bool
	Tracing        Tracing
	Log            Log
	FlightRecorder bool
	Shutdown       Shutdown
}

// Auth says who may use the interface (REQ-O4).
type Auth struct {
	Bearer Secret // "": none
	TLS    TLS    // of the listener; CA is that of clients' certificates
	// OpenMetrics and OpenReplica answer without a credential.
	OpenMetrics, OpenReplica bool
}

// TLS is the text of PEM files. The zero value is none.
type TLS struct {
	CA, Cert string
	Key      Secret
}

// Server is the configuration of the listener, nil without a certificate.
func (a Auth) Server() (*tls.Config, error) {
	t := a.TLS
	if t.Cert == "" {
		return nil, nil //nolint:nilnil // no configuration is none
	}
	pair, err := tls.X509KeyPair([]byte(t.Cert), []byte(t.Key))
	if err != nil {
		return nil, errors.New("config: certificate and key do not fit")
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if t.CA != "" {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM([]byte(t.CA)) {
			return nil, errors.New("config: the file of authorities has no certificate")
		}
	}
	return c, nil
}

// Tracing is where spans go.
type Tracing struct {
	Endpoint    string  // "": nowhere
	Headers     Secret  // "key=value,key=value"
	SampleRatio float64 // default 0.1
	Insecure    bool
	Timeout     time.Duration // default 10s
}

// Log is what the log looks like.
type Log struct {
	JSON  bool
	Level string // debug, info, warn or error; default info
}

// Shutdown is the end of the process.
type Shutdown struct {
	Delay    time.Duration // between the answer "not ready" and the refusal of emits; default 0
	Deadline time.Duration // of what is under way then; default 10s
}

// DeadLetters is where triggers wait.
type DeadLetters struct {
	Path     string // the directory of the store; "": memory
	Letters  int
	Bytes    int64
	Reserved int // negative: none
}

// Bolt is the store in a directory.
func (d DeadLetters) Bolt() boltletters.Config {
	return boltletters.Config{Dir: d.Path, MaxLetters: d.Letters, MaxBytes: d.Bytes, ReservedLetters: d.Reserved}
}

// ringLetters is how many letters memory holds by default.
const ringLetters = 10000

// Ring is the store in memory.
func (d DeadLetters) Ring() emit.RingConfig {
	letters := d.Letters
	if letters == 0 {
		letters = ringLetters
	}
	return emit.RingConfig{Letters: letters, Bytes: d.Bytes, Reserved: d.Reserved}
}

func (r *reader) daemon(c *Config) []field {
	d := &c.Daemon
	d.Listen, d.PublishedNames, d.Tracing, d.Log = "127.0.0.1:8080", true, Tracing{SampleRatio: 0.1, Timeout: 10 * time.Second}, Log{Level: "info"}
	d.Shutdown = Shutdown{Deadline: 10 * time.Second}
	return []field{
		text("listen", "listen", &d.Listen),
		text("agent_listen", "agent_listen", &d.AgentListen),
		section("auth", func(r *reader, at place) { r.auth(at, &d.Auth) }),
		section("metrics", func(r *reader, at place) { r.mapping(at, yes("published_names", &d.PublishedNames)) }),
		section("tracing", func(r *reader, at place) { r.tracing(at, &d.Tracing) }),
		section("log", func(r *reader, at place) {
			r.mapping(at,
				word("format", []string{"text", "json"}, func(f string) { d.Log.JSON = f == "json" }),
				word("level", []string{"debug", "info", "warn", "error"}, func(l string) { d.Log.Level = l }),
			)
		}),
		yes("flight_recorder", &d.FlightRecorder),
		section("shutdown", func(r *reader, at place) {
			r.mapping(at,
				duration("delay", "", &d.Shutdown.Delay, span{usual: "5s", zero: true}),
				duration("deadline", "", &d.Shutdown.Deadline, span{least: 100 * time.Millisecond, usual: "10s"}),
			)
			d.Shutdown.Delay = max(d.Shutdown.Delay, 0)
		}),
	}
}

func (r *reader) auth(at place, a *Auth) {
	at.secret = true
	var env, file string
	given := r.mapping(at,
		text("bearer_token_env", "", &env),
		text("bearer_token_file", "", &file),
		section("tls", func(r *reader, at place) { r.serverTLS(at, a) }),
		shown(field{"open", "", func(r *reader, at place) {
			for _, item := range r.list(at) {
				switch w, ok := scalar(item, "!!str"); {
				case !r.usable(item):
				case ok && w == "metrics":
					a.OpenMetrics = true
				case ok && w == "replica":
					a.OpenReplica = true
				default:
					r.fault(item, "is %s: use metrics or replica", show(item))
				}
			}
		}}),
	)
	a.Bearer = r.token(given, env, file)
}

// A tlsFiles is what tls of a consumer and of auth have.
type tlsFiles struct{ ca, cert, key string }

func (f *tlsFiles) fields(ca string) []field {
	return []field{text(ca, "", &f.ca), text("cert_file", "", &f.cert), text("key_file", "", &f.key)}
}

func (r *reader) clientTLS(at place, t *TLS) {
	var f tlsFiles
	if given := r.mapping(at, f.fields("ca_file")...); given != nil {
		*t = r.tls(at, given, f, "ca_file")
	}
}

func (r *reader) serverTLS(at place, a *Auth) {
	var f tlsFiles
	given := r.mapping(at, f.fields("client_ca_file")...)
	if given == nil {
		return
	}
	if given["cert_file"].node == nil && given["key_file"].node == nil {
		r.required(at, given, "cert_file", "a listener with TLS needs its certificate and key")
	}
	a.TLS = r.tls(at, given, f, "client_ca_file")
}

// tls reads the files; what has a fault is left out.
func (r *reader) tls(at place, given map[string]place, f tlsFiles, ca string) (t TLS) {
	cert, hasCert := given["cert_file"]
	key, hasKey := given["key_file"]
	switch {
	case hasCert && !hasKey:
		r.required(at, given, "key_file", "a certificate needs its key")
	case hasKey && !hasCert:
		r.required(at, given, "cert_file", "a key needs its certificate")
	case f.cert != "" && f.key != "":
		t.Cert, t.Key = r.content(cert, f.cert), Secret(r.content(key, f.key))
		if t.Cert == "" || t.Key == "" {
			break
		}
		if _, err := tls.X509KeyPair([]byte(t.Cert), []byte(t.Key)); err != nil {
			r.fault(cert, "and key_file are no certificate with its key, both in PEM: name files that fit")
			t.Cert, t.Key = "", ""
		}
	}
	if place, ok := given[ca]; ok && f.ca != "" {
		t.CA = r.content(place, f.ca)
		if t.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(t.CA)) {
			r.fault(place, "names a file without a certificate in PEM: name that of the authority")
			t.CA = ""
		}
	}
	return t
}

func (r *reader) tracing(at place, t *Tracing) {
	at.secret = true
	var headers string
	share := func(v float64) bool { return v >= 0 && v <= 1 }
	given := r.mapping(at,
		text("endpoint", "telemetry: Endpoint", &t.Endpoint),
		text("headers_env", "telemetry: Headers", &headers),
		shown(number("sample_ratio", "", &t.SampleRatio, share, "a share from 0 to 1, such as 0.1")),
		shown(yes("insecure", &t.Insecure)),
		shown(duration("timeout", "", &t.Timeout, span{least: time.Millisecond, usual: "10s"})),
	)
	if given == nil {
		return
	}
	r.required(at, given, "endpoint", "give the collector's host:port, such as localhost:4318")
	if where, ok := given["headers_env"]; ok && headers != "" {
		t.Headers = Secret(r.environment(where, headers, "the headers, as key=value,key=value"))
	}
	r.askExporter(t)
}

// askExporter has the exporter check where spans go, and say what of it is secret.
func (r *reader) askExporter(t *Tracing) {
	r.places["telemetry: Insecure"] = r.places["section: tracing"].child("insecure", nil)
	c := telemetry.Config{Endpoint: t.Endpoint, Headers: string(t.Headers), Insecure: t.Insecure}
	for _, secret := range c.Secrets() {
		r.secret(secret)
	}
	if t.Endpoint == "" {
		return // told already
	}
	for _, f := range leaves(c.Check()) {
		r.tell(f.Error())
	}
}

// deadLetters reads how much may wait; the stores say what they can hold.
func (r *reader) deadLetters(at place, d *DeadLetters) {
	given := r.mapping(at,
		text("path", "boltletters: Dir", &d.Path),
		whole("letters", "letters", &d.Letters, math.MaxInt32, "10000"),
		size("bytes", "bytes", &d.Bytes),
		wholeFrom0("reserved", "reserved", &d.Reserved),
	)
	if d.Path != "" {
		d.Path = r.beside(d.Path)
	}
	for _, alias := range [][2]string{
		{"boltletters: MaxLetters", "letters"},
		{"boltletters: MaxBytes", "bytes"},
		{"boltletters: ReservedLetters", "reserved"},
		{"emit: RingConfig.Letters", "letters"},
		{"emit: RingConfig.Bytes", "bytes"},
		{"emit: RingConfig.Reserved", "reserved"},
		{"emit: Letters", "letters"},
	} {
		where, ok := given[alias[1]]
		if !ok {
			where = at.child(alias[1], at.node)
		}
		r.places[alias[0]] = where
	}
	if given != nil {
		r.askStore(d)
	}
}

// askStore has the store check its size. A Ring takes its room when it is made, as pages are used: this one is used for nothing.
func (r *reader) askStore(d *DeadLetters) {
	var err error
	if d.Path != "" {
		err = boltletters.CheckConfig(d.Bolt())
	} else {
		_, err = emit.NewRing(d.Ring())
	}
	for _, f := range leaves(err) {
		r.tell(f.Error())
	}
}

// priorities are names, each once.
func (r *reader) priorities(c *Config) []field {
	return []field{
		texts("priorities", emit.MaxPriorities, &c.Priorities),
		text("default_priority", "default_priority", &c.DefaultPriority),
	}
}

// checkPriorities compares them.
func (r *reader) checkPriorities(c *Config, given map[string]place) {
	names := c.Priorities
	if names == nil {
		names = []string{"compliance", "normal", "idle-ping"}
	}
	if at, ok := given["default_priority"]; ok && c.DefaultPriority != "" && !slices.Contains(names, c.DefaultPriority) && !r.faulty["priorities"] {
		r.fault(at, "is %s: give one of %q", show(at), names)
	}
}

// checkListen: off loopback the interface needs a credential (REQ-O4).
func (r *reader) checkListen(c *Config, given map[string]place) {
	d := &c.Daemon
	check := func(key, text string, open bool, mend string) {
		at, ok := given[key]
		if !ok || text == "" || r.faulty[key] {
			return
		}
		loopback, err := address(text)
		switch {
		case err != nil:
			r.fault(at, "is %s: give an IP address with a port, such as 127.0.0.1:8080", show(at))
		case !loopback && !open && !r.faulty["auth"] && !r.faultyBelow("auth"):
			r.fault(at, "is %q, which others than this machine can reach: %s", text, mend)
		}
	}
	credential := d.Auth.Bearer != "" || d.Auth.TLS.CA != ""
	check("listen", d.Listen, credential, "set auth.bearer_token_file, auth.bearer_token_env or auth.tls.client_ca_file, or listen on 127.0.0.1")
	check("agent_listen", d.AgentListen, d.Auth.OpenReplica, "its protocol knows no credential; add replica to auth.open if everybody may know which replicas take reads, or listen on 127.0.0.1")
	if d.AgentListen != "" && d.AgentListen == d.Listen && !strings.HasSuffix(d.Listen, ":0") && !r.faulty["agent_listen"] { // 0 is any that is free
		r.fault(given["agent_listen"], "is %s, as is listen: give each a port of its own", show(given["agent_listen"]))
	}
	if at, ok := given["agent_listen"]; ok && !c.nodes {
		r.fault(at, "is given without replicas: there is nothing to tell; name primary and replicas, or remove it")
	}
}

// Serve returns what a daemon lacks in the file, as FaultErrors.
func (c *Config) Serve() error {
	var faults FaultErrors
	fault := func(path, text string) {
		faults = append(faults, Fault{File: c.reader.file, Line: 1, Column: 1, Path: path, Text: text})
	}
	if !c.nodes && len(c.Consumers) == 0 {
		fault(theFile, "has nothing to serve: name primary and replicas, or consumers, or both")
	} else if c.ReadPath != nil && !c.nodes {
		fault("primary", "is missing: degraded_mode and endpoints need the nodes whose reads they are about; name primary and replicas")
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// Emit is the configuration of a Router without its sinks, store and observer.
func (c *Config) Emit() emit.Config {
	e := emit.Config{Priorities: c.Priorities, DefaultPriority: c.DefaultPriority}
	for i := range c.Consumers {
		e.Consumers = append(e.Consumers, c.Consumers[i].Lane)
	}
	return e
}

// Place tells where a key of the file's root stands, for a fault that only its use shows.
func (c *Config) Place(key, text string) error {
	f := Fault{File: c.reader.file, Line: 1, Column: 1, Path: key, Text: text}
	if at, ok := c.reader.given[key]; ok {
		f.Line, f.Column = at.node.Line, at.node.Column
	}
	return FaultErrors{f}
}
