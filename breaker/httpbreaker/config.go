package httpbreaker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/httpwire"
)

// Config says how requests are guarded. The zero value works.
type Config struct {
	// Breaker is the configuration of every breaker. A breaker is named by its key, after this
	// Name and a slash if there is one. Its Classify is asked about transport
	// errors that are neither a timeout nor the caller's doing. Its Calls are not filled in: set Calls.Timeout
	// to CallTimeout to have latency rules refused whose Threshold no call can reach. Its Probe.Reserved
	// is for callers who ask AllowProbe of Transport.Breaker themselves; no request does. Default: see
	// breaker.Config.
	Breaker breaker.Config
	// Key tells which breaker guards a request. Its answer appears in errors and metrics: no
	// secrets. Default: Host.
	Key func(*http.Request) string
	// MaxKeys is how many breakers are kept, 1 to 1,000,000: see breaker.SetConfig. Default: 10,000.
	MaxKeys int
	// Base sends the requests that are admitted. It must heed the request's context.
	// Default: an *http.Transport of its own that dials within ConnectTimeout, takes proxies
	// from the environment and drops an HTTP/2 connection on which nothing answers any more.
	Base http.RoundTripper
	// ConnectTimeout bounds a connection attempt of the default Base, and again its TLS handshake.
	// With a Base of yours it must be 0: set it there. Default: 500ms.
	ConnectTimeout time.Duration
	// CallTimeout bounds a call from its start until the response's headers are there; waiting for a
	// connection and sending the request's body count too. Negative: none. Default: 2s.
	CallTimeout time.Duration
	// StallTimeout bounds how long one Read of a response's body waits. The time between
	// Reads does not count. Negative: none, and the headers decide what a call counts as,
	// which suits streams that are silent for long. Default: 10s.
	StallTimeout time.Duration
	// SlowCall is how long a call must have lasted for its caller's own deadline to count as a
	// failure. Default: 500ms, so that deadlines of a second count.
	SlowCall time.Duration
	// Classify says what a response means by its status and headers; it must leave the body
	// alone. Default: Outcome of its status.
	Classify func(*http.Response) breaker.Outcome
	// Fallback answers in place of a call that was refused (its error matches breaker.ErrOpen), or that
	// failed without a response while its caller still waits. It returns a response, or an error of its
	// own, or two nils where the error that it got shall stand. The request's body is used up: it
	// has GetBody. Default: errors stand.
	Fallback func(*http.Request, error) (*http.Response, error)
	// OnEnd is told once of each request what it counted as: where it is refused, or when its outcome is reported, which for a good
	// response is the end of its body. It runs on the goroutine of the request, or of who reads or closes the body, and must be quick; a
	// panic in it is told to Breaker.Observer.OnFault, Part "OnEnd". Default: nobody is told.
	OnEnd func(*http.Request, End)
}

// An End tells what one request counted as.
type End struct {
	// Breaker is its breaker.
	Breaker *breaker.Breaker
	// Admitted is false for a request that was refused.
	Admitted bool
	// State is that in which the breaker admitted the request, or refused it.
	State breaker.State
	// Outcome is what an admitted request counted as.
	Outcome breaker.Outcome
	// Status is that of the host's response; 0 where there was none.
	Status int
	// Err is the refusal, a [*breaker.OpenError], or what made the outcome; nil for a success.
	Err error
	// From and To are the breaker's states just before and after the outcome was reported. They differ where the request changed
	// the state, or another one in the same moment.
	From, To breaker.State
}

// The defaults of Config, and the bound that a breaker.Set has.
const (
	maxMaxKeys            = 1_000_000
	defaultMaxKeys        = 10_000
	defaultConnectTimeout = 500 * time.Millisecond
	defaultCallTimeout    = 2 * time.Second
	defaultStallTimeout   = 10 * time.Second
	defaultSlowCall       = 500 * time.Millisecond
)

func (c Config) withDefaults() Config {
	if c.Base == nil {
		c.Base = httpwire.NewTransport(orDefault(c.ConnectTimeout, defaultConnectTimeout))
	}
	if c.Key == nil {
		c.Key = Host
	}
	if c.Classify == nil {
		c.Classify = func(resp *http.Response) breaker.Outcome { return Outcome(resp.StatusCode) }
	}
	c.Breaker.Classify = reportPanics(c.Breaker.Classify)
	c.MaxKeys = orDefault(c.MaxKeys, defaultMaxKeys)
	c.CallTimeout = orDefault(c.CallTimeout, defaultCallTimeout)
	c.StallTimeout = orDefault(c.StallTimeout, defaultStallTimeout)
	c.SlowCall = orDefault(c.SlowCall, defaultSlowCall)
	return c
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// check returns every fault of a Config as it was given, Breaker's apart, joined.
func (c Config) check() error {
	var errs []error
	if c.MaxKeys < 0 || c.MaxKeys > maxMaxKeys {
		errs = append(errs, fault("MaxKeys", c.MaxKeys, "use 1 to 1000000, or 0 for 10000"))
	}
	if c.ConnectTimeout < 0 {
		errs = append(errs, fault("ConnectTimeout", c.ConnectTimeout, "use a positive duration, or 0 for 500ms"))
	}
	if c.ConnectTimeout > 0 && c.Base != nil {
		errs = append(errs, fault("ConnectTimeout", c.ConnectTimeout, "Base dials by itself; set it there and leave this 0"))
	}
	if c.SlowCall < 0 {
		errs = append(errs, fault("SlowCall", c.SlowCall, "use a positive duration, or 0 for 500ms"))
	}
	if lease := c.Breaker.Probe.Lease; lease > 0 && lease <= orDefault(c.CallTimeout, defaultCallTimeout) {
		errs = append(errs, fault("Breaker.Probe.Lease", lease, "a slow probe would always lose its slot; use more than CallTimeout"))
	}
	return errors.Join(errs...)
}

// fault names a field, its value and the mend.
func fault(field string, value any, mend string) error {
	return fmt.Errorf("httpbreaker: %s is %v: %s", field, value, mend)
}

type callTimeoutKey struct{}

// WithCallTimeout sets the call timeout of the requests under ctx in place of
// Config.CallTimeout, which 0 means. Negative: none.
func WithCallTimeout(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, callTimeoutKey{}, d)
}

func callTimeout(ctx context.Context, usual time.Duration) time.Duration {
	d, _ := ctx.Value(callTimeoutKey{}).(time.Duration)
	return orDefault(d, usual)
}
