package readpath

import (
	"context"
	"errors"
	"time"

	"github.com/breakwater-go/breakwater/replica"
)

// A Call says what is read.
type Call struct {
	// Endpoint is the registered name.
	Endpoint string
	// Key tells the answers of an endpoint apart, in the cache and for the loader at the
	// primary. Empty: neither is used.
	Key string
	// Class overrides that of the endpoint for this call (REQ-D12). Default: the endpoint's.
	Class Class
}

// A Result is an answer, and how far it can be trusted (REQ-D7).
type Result[T any] struct {
	Value  T
	Source Source
	// Stale says that the answer may be older than its class's bound.
	Stale bool
	// Unverified says that the replica's bound could not be verified (REQ-R14).
	Unverified bool
	// Age is for how long the answer may have been out of date, at most; 0 from the
	// primary, and where Source is FromDefault.
	Age time.Duration
	// Node is the name of the node that answered, if one did.
	Node string
}

// Get reads one thing by way of the path. Where ctx carries a position (replica.WithPosition)
// the answer holds it: it is a replica's that has replayed so far, else the primary's within the budget,
// else there is none but the default of an endpoint.
//
// load makes the read, with the context that it is given; it may be called twice, for a
// replica and then for the primary, and for a degradable read on a goroutine that outlives the call. Its error is returned as it is, but for
// one that says that no node could answer (it matches replica.ErrNoReplica, or [Backend] says so): then the class's policy answers. A
// refusal is a [*RefusedError].
func Get[T any](ctx context.Context, r *Router, c Call, load func(context.Context) (T, error)) (Result[T], error) {
	res, err := answer(ctx, r, c, load)
	note(ctx, &res, err)
	return res, err
}

func answer[T any](ctx context.Context, r *Router, c Call, load func(context.Context) (T, error)) (Result[T], error) {
	ep, class, err := r.find(c)
	if err != nil {
		return Result[T]{}, err
	}
	if r.withheld.Load()&(1<<class) == 0 {
		res, err := fromReplica(ctx, r, c, class, load)
		if !r.unanswered(ctx, err) {
			return res, err
		}
		r.look() // finds out: a full replica is no stale one (REQ-R17), nor one that lacks this read's position (REQ-R12)
	}
	switch class {
	case Critical:
		return critical(ctx, r, ep, class, load)
	case Degradable:
		return degradable(ctx, r, ep, c, load)
	default:
		return shed[T](r, ep)
	}
}

// find is the endpoint of a call and the class that it gets.
func (r *Router) find(c Call) (*endpoint, Class, error) {
	s := r.settings.Load()
	ep, class := s.endpoints[c.Endpoint], c.Class
	if ep == nil {
		r.unknown.Add(1)
		if !class.valid() {
			class = s.DefaultClass
		}
		if !class.valid() {
			return nil, 0, unknownError(c.Endpoint)
		}
		return s.other[class], class, nil
	}
	if !class.valid() {
		class = ep.Class
	}
	if class == Critical {
		ep.reads.Add(1)
	}
	return ep, class, nil
}

func (r *Router) count(c Class, s Source) { r.counts[c][s].Add(1) }

func (r *Router) refuse(ep *endpoint, c Class) *RefusedError {
	r.counts[c][sources].Add(1)
	return ep.refused[c]
}

// fromReplica reads from an eligible replica.
func fromReplica[T any](ctx context.Context, r *Router, c Call, class Class, load func(context.Context) (T, error)) (Result[T], error) {
	res, info, err := read(ctx, r, r.requirement(class), load)
	if err != nil {
		return Result[T]{}, err
	}
	r.count(class, res.Source)
	if class == Degradable {
		r.remember(c, res.Value, info)
	}
	return res, nil
}

// read runs load on a node that satisfies req.
func read[T any](ctx context.Context, r *Router, req replica.Requirement, load func(context.Context) (T, error)) (Result[T], *ReadInfo, error) {
	info := new(ReadInfo)
	v, err := load(r.backend.WithRead(ctx, req, info))
	if err != nil {
		return Result[T]{}, info, err
	}
	res := Result[T]{Value: v, Source: FromReplica, Unverified: info.Unverified, Age: info.Hi, Node: info.Node}
	if info.Primary || req.PrimaryOnly {
		res.Source, res.Age = FromPrimary, 0
	}
	return res, info, nil
}

// critical is a read that is fresh or fails (REQ-D4).
func critical[T any](ctx context.Context, r *Router, ep *endpoint, class Class, load func(context.Context) (T, error)) (Result[T], error) {
	res, _, err := fromPrimary(ctx, r, class, 0, load)
	switch {
	case errors.Is(err, errNoRoom):
		return Result[T]{}, r.refuse(ep, class)
	case r.unanswered(ctx, err):
		return Result[T]{}, because(r.refuse(ep, class), err)
	}
	return res, err
}

// unanswered tells whether err is that no node could answer: then the class's policy does.
func (r *Router) unanswered(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && (errors.Is(err, replica.ErrNoReplica) || r.backend.Failed(err))
}

// errNoRoom: the budget has no token for this class, or too many fall-back reads run.
var errNoRoom = errors.New("readpath: no room in the primary's budget")

// fromPrimary reads from the primary within its budget, of which it leaves kept tokens.
func fromPrimary[T any](ctx context.Context, r *Router, class Class, kept int, load func(context.Context) (T, error)) (Result[T], *ReadInfo, error) {
	permit, ok := r.room.Acquire()
	if !ok {
		return Result[T]{}, nil, errNoRoom
	}
	defer permit.Release()
	if !r.budget.AllowKeeping(1, kept) {
		return Result[T]{}, nil, errNoRoom
	}
	res, info, err := read(ctx, r, replica.Requirement{PrimaryOnly: true}, load)
	if err == nil {
		r.count(class, FromPrimary)
	}
	return res, info, err
}

// degradable is a read that may be old (REQ-D5): from the cache, from the primary if there is
// room, or the default.
func degradable[T any](ctx context.Context, r *Router, ep *endpoint, c Call, load func(context.Context) (T, error)) (Result[T], error) {
	if !replica.PositionFrom(ctx).IsZero() {
		c.Key = "" // neither the cache nor a loader that runs already can know of the write (REQ-D7)
	}
	if res, ok := fromCache[T](r, c, r.settings.Load().Degradable.MaxAge); ok {
		return res, nil
	}
	res, err := loadOnce(ctx, r, c, load)
	if !errors.Is(err, errNoRoom) && !r.unanswered(ctx, err) {
		return res, err
	}
	return byDefault[T](r, ep, Degradable)
}

func fromCache[T any](r *Router, c Call, maxAge time.Duration) (res Result[T], ok bool) {
	if r.cache == nil || c.Key == "" {
		return res, false
	}
	e, ok := r.cache.Get(CacheKey{c.Endpoint, c.Key})
	v, isT := e.Value.(T)
	age := time.Since(e.Current)
	if !ok || !isT || age > maxAge {
		return res, false
	}
	r.count(Degradable, FromCache)
	return Result[T]{Value: v, Source: FromCache, Stale: true, Age: max(age, 0)}, true
}

// remember keeps a fresh answer for worse times.
func (r *Router) remember(c Call, v any, info *ReadInfo) {
	if r.cache == nil || c.Key == "" {
		return
	}
	if current := info.current(); !current.IsZero() {
		r.cache.Set(CacheKey{c.Endpoint, c.Key}, Entry{Value: v, Current: current})
	}
}

// byDefault is the endpoint's default, or the zero value, flagged stale.
func byDefault[T any](r *Router, ep *endpoint, class Class) (Result[T], error) {
	v, ok := ep.Default.(T)
	if ep.Default != nil && !ok {
		return Result[T]{}, defaultTypeError(ep, v)
	}
	r.count(class, FromDefault)
	return Result[T]{Value: v, Source: FromDefault, Stale: true}, nil
}

// shed drops a read at once (REQ-D6).
func shed[T any](r *Router, ep *endpoint) (Result[T], error) {
	if ep.Default == nil {
		return Result[T]{}, r.refuse(ep, Sheddable)
	}
	return byDefault[T](r, ep, Sheddable)
}
