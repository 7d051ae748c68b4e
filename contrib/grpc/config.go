package grpcbreaker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// Config sets up a Guard. The zero Config works.
type Config struct {
	// Breaker is the configuration of every breaker. A breaker is named by its key, after this Name and a slash if
	// there is one. Its Classify is asked for each error that the caller's cancellation or deadline did not make; a
	// timeout of ours is a DeadlineExceeded. Its Calls are not filled in: set Calls.Timeout to CallTimeout to have latency
	// rules refused whose Threshold no call can reach. Its Probe.Reserved is for callers who ask AllowProbe of Guard.Breaker
	// themselves; no call does. Default: see breaker.Config, but with Classify of this package.
	Breaker breaker.Config
	// Key tells which breaker guards a call, from its context, the target that its connection was made for, and the full
	// method, "/shop.Orders/Get". It is called for each call, concurrently. Its answer appears in errors and metrics: no secrets.
	// Default: the target as grpc.NewClient was given it, a slash, and the service: "orders:443/shop.Orders" for "orders:443".
	Key func(ctx context.Context, target, method string) string
	// MaxKeys is how many breakers are kept, 1 to 1,000,000: see breaker.SetConfig. Default: 10,000.
	MaxKeys int
	// CallTimeout bounds a unary call, retries by gRPC's service config included. Negative: none, for callers who
	// always set a deadline. Per call: WithCallTimeout. Default: 2s.
	CallTimeout time.Duration
	// AnswerTimeout bounds each wait of a stream for its server until the first header or message. Negative: none.
	// Per stream: WithCallTimeout. Default: 2s.
	AnswerTimeout time.Duration
	// SlowCall is how long a call must have lasted for its caller's own deadline to count as a failure. For a stream
	// on which only the client sends it is counted from its last message. Default: 500ms, so that deadlines of a second count.
	SlowCall time.Duration
}

// The defaults of Config, and the bound that a breaker.Set has.
const (
	maxMaxKeys      = 1_000_000
	defaultMaxKeys  = 10_000
	defaultTimeout  = 2 * time.Second
	defaultSlowCall = 500 * time.Millisecond
	defaultLease    = 30 * time.Second // as in package breaker
)

// withDefaults is c with every field that is zero set to its default.
func (c Config) withDefaults() Config {
	setDefault(&c.MaxKeys, defaultMaxKeys)
	setDefault(&c.CallTimeout, defaultTimeout)
	setDefault(&c.AnswerTimeout, defaultTimeout)
	setDefault(&c.SlowCall, defaultSlowCall)
	setDefault(&c.Breaker.Probe.Lease, defaultLease)
	if c.Breaker.Classify == nil {
		c.Breaker.Classify = Classify
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// check returns every fault of a Config with its defaults, joined.
func (c Config) check() error {
	_, err := breaker.New(c.Breaker)
	errs := []error{err}
	if c.MaxKeys < 0 || c.MaxKeys > maxMaxKeys {
		errs = append(errs, fault("MaxKeys", c.MaxKeys, "use 1 to 1000000, or 0 for 10000"))
	}
	if lease := c.Breaker.Probe.Lease; lease > 0 && lease <= max(c.CallTimeout, c.AnswerTimeout) {
		errs = append(errs, fault("Breaker.Probe.Lease", lease, "a slow probe would always lose its slot; use more than CallTimeout and AnswerTimeout"))
	}
	if c.SlowCall < 0 {
		errs = append(errs, fault("SlowCall", c.SlowCall, "use a positive duration, or 0 for 500ms"))
	}
	return errors.Join(errs...)
}

// fault names a field, its value and the mend.
func fault(field string, value any, mend string) error {
	return fmt.Errorf("grpcbreaker: %s is %v: %s", field, value, mend)
}

type timeoutKey struct{}

// WithCallTimeout gives the calls under ctx a timeout of their own: it takes the place of Config.CallTimeout for a unary
// call and of Config.AnswerTimeout for a stream. Negative: none. Zero: the Guard's.
func WithCallTimeout(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, timeoutKey{}, d)
}

// timeoutOf is what ctx asks for, or else usual.
func timeoutOf(ctx context.Context, usual time.Duration) time.Duration {
	if d, _ := ctx.Value(timeoutKey{}).(time.Duration); d != 0 {
		return d
	}
	return usual
}
