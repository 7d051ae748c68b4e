package httpsink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/internal/cloudevent"
	"github.com/breakwater-go/breakwater/internal/httpwire"
)

// connectTimeout bounds a dial, and again its TLS handshake: it goes on when its caller has left.
const connectTimeout = 500 * time.Millisecond

// A Sink delivers to one consumer. Make it with [New], once for a consumer; it must not be copied.
type Sink struct {
	config    Config // with its defaults; immutable, as all of it
	url       *url.URL
	shown     string // scheme and host
	transport *http.Transport
	secrets   []string    // of the Config
	closed    atomic.Bool // set once, by Close
}

// New makes a Sink. Nothing is connected yet. The error names every fault of the Config.
func New(c Config) (*Sink, error) {
	c = c.withDefaults()
	u, err := c.check()
	if err != nil {
		return nil, err
	}
	return &Sink{config: c, url: u, shown: u.Scheme + "://" + u.Host, transport: newTransport(c), secrets: secretsOf(c, u)}, nil
}

func newTransport(c Config) *http.Transport {
	t := httpwire.NewTransport(connectTimeout)
	t.TLSClientConfig = c.TLS
	t.MaxConnsPerHost, t.MaxIdleConns, t.MaxIdleConnsPerHost = c.MaxConns, c.MaxConns, c.MaxConns
	t.MaxResponseHeaderBytes = maxHeader
	t.DisableCompression = true // the body is thrown away
	return t
}

// String names the scheme and host only, so that a Sink can be printed.
func (s *Sink) String() string { return "httpsink " + s.shown }

// GoString is String.
func (s *Sink) GoString() string { return s.String() }

// CloseIdleConnections closes the connections that are not in use. Call it when the last delivery has ended.
func (s *Sink) CloseIdleConnections() { s.transport.CloseIdleConnections() }

// Close closes the connections, each once no delivery uses it. It does not wait, and may be called while deliveries are under way. Deliveries
// that begin later are made, over connections that are not kept.
func (s *Sink) Close() {
	s.closed.Store(true)
	s.transport.CloseIdleConnections()
}

// ended closes what a delivery left behind, if the sink is closed: a request has the transport keep connections again.
func (s *Sink) ended() {
	if s.closed.Load() {
		s.transport.CloseIdleConnections()
	}
}

// Deliver sends t, and says by the answer whether it was taken: see the package's documentation. The errors are an [emit.LaterError],
// a [StatusError], or wrap the context's or that of the connection; each names scheme and host.
func (s *Sink) Deliver(ctx context.Context, t emit.Trigger) error {
	defer s.ended()
	req, data, err := s.request(ctx, t)
	if err != nil {
		return fmt.Errorf("httpsink: %s: %w", s.shown, err)
	}
	defer data.release()
	secrets := tidy(append(credentials(req.Header.Get("Authorization")), s.secrets...))
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return &sendError{text: "httpsink: " + s.shown + ": " + blotOut(err.Error(), secrets), cause: err}
	}
	defer closeBody(resp.Body)
	return s.answer(resp, secrets)
}

// request makes the request for t, whose body reads from the payload.
func (s *Sink) request(ctx context.Context, t emit.Trigger) (*http.Request, *payload, error) {
	header := s.config.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	data, err := s.encode(header, t)
	if err != nil {
		return nil, nil, err
	}
	// An empty list makes net/http try again on another connection if an idle one turns out to be closed.
	header[defaultIdempotencyHeader] = []string{}
	header[s.config.IdempotencyHeader] = []string{cloudevent.Percent(t.ID)}
	if err := s.authorize(ctx, header); err != nil {
		return nil, nil, err
	}
	req := &http.Request{
		Method: http.MethodPost, URL: s.url, Host: s.url.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
	}
	p := &payload{}
	if len(data) > 0 {
		p.mu.data = data
		req.ContentLength = int64(len(data))
		req.Body = p.open()
		req.GetBody = func() (io.ReadCloser, error) { return p.open(), nil }
	}
	return req.WithContext(ctx), p, nil
}

// encode sets the headers of t, and returns the body.
func (s *Sink) encode(header http.Header, t emit.Trigger) ([]byte, error) {
	if !s.config.Structured {
		return t.Data, cloudevent.Binary(header, t)
	}
	header.Set("Content-Type", cloudevent.StructuredType)
	return cloudevent.Structured(t)
}

var errAuthorization = errors.New("authorization: the value is none that a header can have")

func (s *Sink) authorize(ctx context.Context, header http.Header) error {
	if s.config.Authorization == nil {
		return nil
	}
	value, err := s.config.Authorization(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("authorization: %w", err)
	case !httpwire.IsValue(value):
		return errAuthorization
	}
	header.Set("Authorization", value)
	return nil
}

// answer says what resp means (REQ-E15), and reads of its body what is wanted and what keeps the connection.
func (s *Sink) answer(resp *http.Response, secrets []string) error {
	if resp.StatusCode/100 == 2 {
		drain(resp.Body)
		return nil
	}
	err := &StatusError{Status: resp.StatusCode, host: s.shown}
	if resp.StatusCode/100 != 1 { // after a 101 comes no body
		err.Body = excerpt(resp.Body, secrets)
		drain(resp.Body)
	}
	if wait := min(httpwire.RetryAfter(resp), MaxRetryAfter); wait > 0 {
		return &emit.LaterError{After: wait, Err: err}
	}
	return err
}

// closeBody ends the request: what is left of the body costs the connection.
func closeBody(body io.Closer) { _ = body.Close() }

// drain reads what is left of a body, to a bound; what comes after it costs the connection. The body's context bounds the time.
func drain(body io.Reader) { _, _ = io.Copy(io.Discard, io.LimitReader(body, maxBody)) }
