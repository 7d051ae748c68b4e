package grpcbreaker

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/breakwater-go/breakwater/breaker"
)

// A Guard holds the breakers and is the interceptors that ask them. Make it with [New]; it must
// not be copied.
type Guard struct {
	config   Config // with its defaults; immutable
	breakers *breaker.Set[string]
}

// New makes a Guard. The error names every fault of the Config.
func New(c Config) (*Guard, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	set, err := breaker.NewSet(breaker.SetConfig[string]{Config: c.Breaker, Max: c.MaxKeys})
	return &Guard{config: c, breakers: set}, err
}

// Breaker returns the breaker of a key, to look at it or to force it. The key is what Config.Key
// answers, by default conn.Target() + "/" + the service. It is made if the key
// is new, also where the key is mistyped, and evicted for others once MaxKeys are kept: see [breaker.Set].
func (g *Guard) Breaker(key string) *breaker.Breaker { return g.breakers.Get(key) }

// errUnwound is the reason of a call that did not return.
var errUnwound = errors.New("panic or runtime.Goexit")

// Unary is the interceptor of unary calls: a [grpc.UnaryClientInterceptor].
func (g *Guard) Unary(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	b := g.breakers.Get(g.key(ctx, cc.Target(), method))
	permit, err := b.Allow()
	if err != nil {
		return refused(err)
	}
	defer permit.DoneAs(breaker.Failure, errUnwound) // does nothing once the permit is used below
	begin := time.Now()
	err = g.invoke(ctx, func(ctx context.Context) error { return invoker(ctx, method, req, reply, cc, opts...) })
	g.report(ctx, b, &permit, err, time.Since(begin))
	return err
}

func (g *Guard) invoke(ctx context.Context, call func(context.Context) error) error {
	if d := timeoutOf(ctx, g.config.CallTimeout); d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	return call(ctx)
}

// report tells b how a call ended that was made under ctx and lasted for d.
func (g *Guard) report(ctx context.Context, b *breaker.Breaker, permit *breaker.Permit, err error, d time.Duration) {
	if o, ok := callersEnd(ctx, err, d, g.config.SlowCall); ok {
		permit.DoneAs(o, err)
		return
	}
	permit.Done(err)
	if delay := retryAfter(err); delay > 0 {
		b.TripFor(delay, breaker.Reason{Rule: breaker.RuleRetryAfter, Detail: delay.String() + " with " + codeOf(err).String()})
	}
}

// key is the key of a call. A panic of Config.Key leaves the usual one.
func (g *Guard) key(ctx context.Context, target, method string) (key string) {
	key = target + serviceOf(method)
	if g.config.Key == nil {
		return key
	}
	defer func() {
		if v := recover(); v != nil {
			g.faulty(key, v)
		}
	}()
	return g.config.Key(ctx, target, method)
}

// serviceOf is "/shop.Orders" for "/shop.Orders/Get".
func serviceOf(method string) string {
	if i := strings.LastIndexByte(method, '/'); i > 0 {
		return method[:i]
	}
	return method
}

// faulty tells the Observer of a panic of Config.Key; a panic of the Observer has nobody to go to.
func (g *Guard) faulty(key string, panicked any) {
	defer func() { _ = recover() }()
	if tell := g.config.Breaker.Observer.OnFault; tell != nil {
		tell(breaker.Fault{Name: key, At: time.Now(), Part: "Key", Detail: "panicked; the call uses the usual key", Panic: panicked})
	}
}

// A RefusedError is the refusal of a breaker: the call was not sent. Its status is Unavailable, it matches
// [breaker.ErrOpen], and its RetryAfter says when to try again. Read it with errors.AsType[grpcbreaker.RefusedError].
type RefusedError struct{ *breaker.OpenError }

// Unwrap returns the breaker's own error.
func (e RefusedError) Unwrap() error { return e.OpenError }

// GRPCStatus makes the error one of the status package. Its message holds neither the key nor the last error's text, since
// a server that hands the status on shows it to its own callers; Error holds both. It has no RetryInfo,
// which would open the breakers of those callers too.
func (e RefusedError) GRPCStatus() *status.Status {
	return status.New(codes.Unavailable, "grpcbreaker: the circuit breaker is "+e.State.String())
}

// refused is the error of a call that Allow has refused.
func refused(err error) error {
	if open, ok := errors.AsType[*breaker.OpenError](err); ok {
		return RefusedError{open}
	}
	return err
}
