package httpbreaker

import (
	"errors"
	"net/http"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// A Transport sends the requests that their breakers admit. Make it with [New], once for a
// client; it must not be copied.
type Transport struct {
	config   Config // immutable after New
	breakers *breaker.Set[string]
}

// New makes a Transport. The error names every fault of the Config.
func New(c Config) (*Transport, error) {
	faults := c.check()
	c = c.withDefaults()
	_, err := breaker.New(c.Breaker)
	if err := errors.Join(err, faults); err != nil {
		return nil, err
	}
	set, err := breaker.NewSet(breaker.SetConfig[string]{Config: c.Breaker, Max: c.MaxKeys})
	return &Transport{config: c, breakers: set}, err
}

// Breaker returns the breaker of a key, to look at it or to force it. The key is what Config.Key
// answers, by default host and port: "api.example.com:443". It is made if the key
// is new, also where the key is mistyped, and evicted for others once MaxKeys are kept: see [breaker.Set].
func (t *Transport) Breaker(key string) *breaker.Breaker { return t.breakers.Get(key) }

// RoundTrip sends a request if its breaker admits it. A refusal is a [*breaker.OpenError]; its
// RetryAfter says when to try again.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	key := t.key(req)
	b := t.breakers.Get(key)
	permit, err := b.Allow()
	if err != nil {
		closeBody(req)
		t.refused(req, b, err)
		return t.fallBack(req, err)
	}
	c := newCall(t, req, key, b, permit)
	resp, err := c.send()
	if _, ended := c.callersEnd(); err != nil && !ended && !c.callersFault() {
		return t.fallBack(req, err)
	}
	return resp, err
}

// key asks Config.Key. A panic of it leaves Host.
func (t *Transport) key(req *http.Request) (key string) {
	defer func() {
		if v := recover(); v != nil {
			key = Host(req)
			tellFault(&t.config, breaker.Fault{Name: key, Part: "Key", Detail: "panicked; the request uses Host", Panic: v})
		}
	}()
	return t.config.Key(req)
}

// tellFault tells the Observer of a panic of a function of the Config; a panic of the Observer has nobody to go to.
func tellFault(c *Config, f breaker.Fault) {
	defer func() { _ = recover() }()
	if tell := c.Breaker.Observer.OnFault; tell != nil {
		f.At = time.Now()
		tell(f)
	}
}

// refused tells OnEnd of a request that is not sent.
func (t *Transport) refused(req *http.Request, b *breaker.Breaker, err error) {
	if t.config.OnEnd == nil {
		return
	}
	state := b.State()
	if refusal, ok := errors.AsType[*breaker.OpenError](err); ok {
		state = refusal.State
	}
	tellEnd(&t.config, req, End{Breaker: b, State: state, Err: err, From: state, To: state})
}

// tellEnd asks OnEnd. Its panic is reported (REQ-B18).
func tellEnd(c *Config, req *http.Request, e End) {
	defer func() {
		if v := recover(); v != nil {
			tellFault(c, breaker.Fault{Name: e.Breaker.Name(), Part: "OnEnd", Detail: "panicked; the request goes on", Panic: v})
		}
	}()
	c.OnEnd(req, e)
}

// closeBody is what a RoundTripper owes a request that it does not send.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // its caller learns why it was not sent
	}
}

// fallBack runs Config.Fallback (REQ-B12).
func (t *Transport) fallBack(req *http.Request, cause error) (*http.Response, error) {
	if t.config.Fallback == nil {
		return nil, cause
	}
	resp, err := t.config.Fallback(req, cause)
	switch {
	case err != nil:
		return nil, err
	case resp == nil:
		return nil, cause
	}
	complete(resp, req)
	return resp, nil
}

// complete fills in what a client may rely on.
func complete(resp *http.Response, req *http.Request) {
	resp.Request = req
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
}

// CloseIdleConnections closes the connections of Base that are not in use, if it can.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.config.Base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}
