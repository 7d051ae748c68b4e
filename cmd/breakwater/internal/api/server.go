package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A Route is a part of the interface that another package serves.
type Route struct {
	// Pattern is one of http.ServeMux, with its method: "GET /metrics".
	Pattern string
	Handler http.Handler
	// Open is served without a credential, on any address: the operator's choice, for what carries no secret.
	Open bool
	// Intake reads its body itself, with limits and deadlines of its own. Else the body is read before the Handler is called, at most 64 KiB.
	Intake bool
}

// Config says what a Server shows, and who may see it.
type Config struct {
	// Hub and Source are required. A panic of the Source is told as a fault, and the newest Status stays.
	Hub    *Hub
	Source Source
	// Actions is what an operator may do. Default: nothing, those routes do not exist.
	Actions Actions
	// Lab is what only the lab can do. Default: those routes do not exist.
	Lab Lab
	// Ready says whether traffic may come, nil, or why not. It must be quick. Default: it may.
	Ready func() error
	// Page is served where nothing else is, without a credential: it holds no data. Default: none.
	Page http.Handler
	// Routes are those of others.
	Routes []Route

	// Token is the credential in force, asked at each request, so that it can change. Where it is "" nobody has one, and all are refused. Default: no token is needed.
	Token func() string
	// TLS has the listener speak TLS. With ClientAuth RequireAndVerifyClientCert a client's certificate is a credential; where there is a Token too, both are
	// needed. Default: none.
	TLS *tls.Config
	// Redact takes secrets out of errors. Default: none.
	Redact *Redactor

	// MaxClients is how many may read the stream of events at once. Default: 64.
	MaxClients int
	// MaxConns is how many connections are served at once; newer ones wait. Default: 1024, or half of the files that the process may have open if that is less.
	MaxConns int
	// WriteTimeout is how long a client of the stream may leave a write waiting before it is cut off. Default: 5s.
	WriteTimeout time.Duration
}

const (
	defaultMaxClients   = 64
	defaultWriteTimeout = 5 * time.Second
	// maxBody bounds the body of a request.
	maxBody = 64 << 10
	// maxHeader bounds its header; net/http adds 4 KiB.
	maxHeader = 16<<10 - 4096
	// bodyTimeout is how long a body may take to come.
	bodyTimeout = 10 * time.Second
	// answerTimeout is how long an answer may take to be made and sent, but for the stream.
	answerTimeout = time.Minute
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	// closeTimeout is how long Close waits for requests under way.
	closeTimeout = 5 * time.Second
)

// A Server is the interface over HTTP. Make it with [New]; it must be closed. All its methods may be called at any time from any goroutine.
type Server struct {
	conf    Config // with its defaults; immutable
	routes  http.ServeMux
	open    map[string]bool // patterns that need no credential; immutable
	intakes map[string]bool // patterns whose handlers read their bodies; immutable
	handler http.Handler
	history history
	panics  atomic.Uint64
	ending  context.Context //nolint:containedctx // ends with Close: of the streams and the ticks
	end     context.CancelFunc
	owned   sync.WaitGroup // the ticks
	streams streams
	conns   conns
	server  http.Server
}

// New makes a Server and starts the goroutine that collects the Status once a second, which Close ends. The error names every fault of the Config.
func New(c Config) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.MaxClients == 0 {
		c.MaxClients = defaultMaxClients
	}
	if c.MaxConns == 0 {
		c.MaxConns = defaultMaxConns()
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = defaultWriteTimeout
	}
	s := &Server{conf: c, open: map[string]bool{}, intakes: map[string]bool{}}
	if err := s.route(); err != nil {
		return nil, err
	}
	s.handler = s.guard()
	s.ending, s.end = context.WithCancel(context.Background())
	s.streams.max = c.MaxClients
	s.conns = conns{places: make(chan struct{}, c.MaxConns), ending: s.ending.Done(), full: s.tellFull}
	s.server = http.Server{
		Handler: s.handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog:    log.New(io.Discard, "", 0), // what clients do wrong; what we do is told as a fault
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	if c.TLS != nil {
		s.server.TLSConfig = c.TLS.Clone()
	}
	s.tick()
	s.owned.Go(s.ticks)
	return s, nil
}

func (c *Config) check() error {
	var errs []error
	if c.Hub == nil {
		errs = append(errs, errors.New("api: Hub is nil: give that to which the observers publish"))
	}
	if c.Source == nil {
		errs = append(errs, errors.New("api: Source is nil: give what tells the status"))
	}
	if c.MaxClients < 0 {
		errs = append(errs, fmt.Errorf("api: MaxClients is %d: give at least 1, or 0 for %d", c.MaxClients, defaultMaxClients))
	}
	if c.MaxConns < 0 {
		errs = append(errs, fmt.Errorf("api: MaxConns is %d: give at least 1, or 0 for %d", c.MaxConns, mostConns))
	}
	if c.WriteTimeout < 0 {
		errs = append(errs, fmt.Errorf("api: WriteTimeout is %v: give a positive duration, or 0 for %v", c.WriteTimeout, defaultWriteTimeout))
	}
	for i, r := range c.Routes {
		if r.Handler == nil {
			errs = append(errs, fmt.Errorf("api: Routes[%d].Handler is nil: give what serves %q", i, r.Pattern))
		}
	}
	return errors.Join(errs...)
}

// Handler serves all of it: for a server of the caller's own, or a test.
func (s *Server) Handler() http.Handler { return s.handler }

// Listen listens on a TCP address. One that others than this machine can reach is refused unless a credential is needed (REQ-O4).
func (s *Server) Listen(ctx context.Context, addr string) (net.Listener, error) {
	if err := s.mayListen(ctx, addr); err != nil {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w: end what listens there, or choose another address", err)
	}
	return ln, nil
}

func (s *Server) mayListen(ctx context.Context, addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen is %q: use host:port, such as 127.0.0.1:8080", addr)
	}
	if s.guarded() || isLoopback(ctx, host) {
		return nil
	}
	return fmt.Errorf("listen is %q, which other machines can reach, and no credential is configured: use 127.0.0.1, or configure a bearer token or client certificates", addr)
}

// guarded says that a credential is needed.
func (s *Server) guarded() bool {
	return s.conf.Token != nil || s.conf.TLS != nil && s.conf.TLS.ClientAuth == tls.RequireAndVerifyClientCert
}

// isLoopback says that each address of a host is of this machine alone.
func isLoopback(ctx context.Context, host string) bool {
	if host == "" { // every address
		return false
	}
	addrs, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil || len(addrs) == 0 {
		return false
	}
	for _, a := range addrs {
		if !a.IP.IsLoopback() {
			return false
		}
	}
	return true
}

// Serve answers the listener's clients until Close, and returns nil then. It closes the listener.
func (s *Server) Serve(ln net.Listener) error {
	ln = &limited{Listener: ln, conns: &s.conns}
	var err error
	if s.server.TLSConfig != nil {
		err = s.server.ServeTLS(ln, "", "")
	} else {
		err = s.server.Serve(ln)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close has the streams send what was published and end, waits for requests under way, for at most 5 s, and for the Server's goroutine. It may be called more than once.
func (s *Server) Close() {
	s.end()
	s.streams.close()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close() // the requests that did not end
	}
	s.owned.Wait()
	s.streams.wait()
}

// ServerStats is how the Server fares. Counters run from New and only grow.
type ServerStats struct {
	Clients int    // of the stream, now
	CutOff  uint64 // clients of the stream that did not read
	Refused uint64 // clients of the stream beyond MaxClients
	Panics  uint64 // of handlers and of the Source
	Conns   int    // connections that are served, now
	Waited  uint64 // connections that waited since there were MaxConns
}

// Stats returns what the Server counted.
func (s *Server) Stats() ServerStats {
	clients, cutOff, refused := s.streams.stats()
	return ServerStats{Clients: clients, CutOff: cutOff, Refused: refused, Panics: s.panics.Load(), Conns: len(s.conns.places), Waited: s.conns.waited.Load()}
}

// connKey is where a request's context has its connection.
type connKey struct{}
