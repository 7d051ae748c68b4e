package readpath

import (
	"context"
	"errors"
	"time"

	"github.com/breakwater-go/breakwater/limit"
	"github.com/breakwater-go/breakwater/replica"
)

// A Call says what is read.
type Call struct {
	// Endpoint is the registered name.
	Endpoint string
	// Key tells the answers of an endpoint apart, in the cache and for the loader at the
	// primary. Empty: neither is used. Callers with the same key may get the same value: they must not change it.
	Key string
	// Class overrides that of the endpoint for this call (REQ-D12). Default: the endpoint's.
	Class Class
	// PrimaryOnly asks for the truth: the answer is the primary's, or there is none. While the class has the replicas
	// such a read needs no budget; while it has not it counts against it, and is refused if there is no room, whatever
	// the class (REQ-D3). It gets nothing from the cache, from a replica, or by default.
	PrimaryOnly bool
}

// A Result is an answer, and how far it can be trusted (REQ-D7).
type Result[T any] struct {
	// Value is the answer; others may have the same one (Call.Key).
	Value T
	// Source is where it came from.
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
// else there is none but the default of an endpoint. A position of another cluster is an error that matches replica.ErrForeignPosition.
//
// load makes the read, with the context that it is given; it may be called several times, for a
// replica, a late one and then for the primary, and for a degradable read on a goroutine that outlives the call. Its error is
// returned as it is, but for one that says that no node could answer (it matches replica.ErrNoReplica, or [Backend] says so):
// then the class's policy answers. A refusal is a [*RefusedError].
//
// What load returns may be shared, by all who waited for one loader and with the cache: do not change it. A load that does not
// end with its context keeps its place at the primary, and Close waiting. Get within a load is a read of its own: what it flags is
// not told of the outer one.
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
	given := r.withheld.Load()&(1<<class) == 0
	if err := ctx.Err(); err != nil && !given {
		return Result[T]{}, err // the primary has nothing to spend on a caller who has gone
	}
	if c.PrimaryOnly {
		return primaryOnly(ctx, r, ep, c, class, given, load)
	}
	if given {
		res, err := fromReplica(ctx, r, c, class, r.requirement(class), load)
		if !r.unanswered(ctx, err) {
			return res, err
		}
		r.look() // tells a stale replica from one that is full (REQ-R17), lacks this read's position (REQ-R12), or failed this read alone
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

// refuse is the refusal of a read that the primary did not answer: it had no room, or failed with err.
func (r *Router) refuse(ep *endpoint, c Class, err error) error {
	r.counts[c][sources].Add(1)
	if errors.Is(err, errNoRoom) {
		return ep.refused[c]
	}
	return because(ep.refused[c], err)
}

// unanswered tells whether err is that no node could answer: then the class's policy does.
func (r *Router) unanswered(ctx context.Context, err error) bool {
	return err != nil && (errors.Is(err, errNoRoom) || ctx.Err() == nil && (errors.Is(err, replica.ErrNoReplica) || ahead(err) || r.backend.Failed(err)))
}

// ahead tells whether a read has a position of a timeline that no node is known to be on yet.
func ahead(err error) bool {
	p, ok := errors.AsType[*replica.PositionError](err)
	return ok && p.Condition == replica.OtherTimeline
}

// fromReplica reads from a replica that satisfies req.
func fromReplica[T any](ctx context.Context, r *Router, c Call, class Class, req replica.Requirement, load func(context.Context) (T, error)) (Result[T], error) {
	res, info, err := read(ctx, r, req, load)
	if err != nil {
		return Result[T]{}, err
	}
	r.count(class, res.Source)
	if info.Late {
		r.late.Add(1)
	}
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
	res := Result[T]{Value: v, Source: FromReplica, Stale: info.Late, Unverified: info.Unverified, Age: info.Hi, Node: info.Node}
	if info.Primary || req.PrimaryOnly {
		res.Source, res.Stale, res.Age = FromPrimary, false, 0
	}
	return res, info, nil
}

// critical is a read that is fresh or fails (REQ-D4).
func critical[T any](ctx context.Context, r *Router, ep *endpoint, class Class, load func(context.Context) (T, error)) (Result[T], error) {
	res, _, err := fromPrimary(ctx, r, class, 0, load)
	if r.unanswered(ctx, err) {
		return Result[T]{}, r.refuse(ep, class, err)
	}
	return res, err
}

// primaryOnly is a read of a caller who asked for the primary: within its budget while the class has not the
// replicas, of which it leaves what is kept for critical reads unless it is one.
func primaryOnly[T any](ctx context.Context, r *Router, ep *endpoint, c Call, class Class, given bool, load func(context.Context) (T, error)) (res Result[T], err error) {
	var info *ReadInfo
	switch {
	case given:
		res, info, err = readPrimary(ctx, r, class, load)
	case class == Critical:
		res, info, err = fromPrimary(ctx, r, class, 0, load)
	default:
		res, info, err = fromPrimary(ctx, r, class, r.settings.Load().kept, load)
	}
	switch {
	case r.unanswered(ctx, err):
		return Result[T]{}, r.refuse(ep, class, err)
	case err == nil && class == Degradable:
		r.remember(c, res.Value, info)
	}
	return res, err
}

// errNoRoom: the primary does not answer its samples, the budget has no token for this class, too many fall-back reads run, or a loader took too long.
var errNoRoom = errors.New("readpath: no room in the primary's budget")

// fromPrimary reads from the primary within its budget, of which it leaves kept tokens.
func fromPrimary[T any](ctx context.Context, r *Router, class Class, kept int, load func(context.Context) (T, error)) (Result[T], *ReadInfo, error) {
	permit, ok := r.admit(kept)
	if !ok {
		return Result[T]{}, nil, errNoRoom
	}
	defer permit.Release()
	return readPrimary(ctx, r, class, load)
}

// admit takes a place at the primary and a token, of which it leaves kept: the place first, so that no token is spent
// on a read that is then refused. It never waits, nor does a read for a primary that is down.
func (r *Router) admit(kept int) (limit.Permit, bool) {
	if !r.backend.Eligible(replica.Requirement{PrimaryOnly: true}) {
		return limit.Permit{}, false
	}
	permit, ok := r.room.Acquire()
	if ok && !r.budget.AllowKeeping(1, kept) {
		permit.Release()
		return limit.Permit{}, false
	}
	return permit, ok
}

// readPrimary reads from the primary and counts the answer.
func readPrimary[T any](ctx context.Context, r *Router, class Class, load func(context.Context) (T, error)) (Result[T], *ReadInfo, error) {
	res, info, err := read(ctx, r, replica.Requirement{PrimaryOnly: true}, load)
	if err == nil {
		r.count(class, FromPrimary)
	}
	return res, info, err
}

// degradable is a read that may be old (REQ-D5): from the cache, from a late replica by choice, from the primary if
// there is room, or the default.
func degradable[T any](ctx context.Context, r *Router, ep *endpoint, c Call, load func(context.Context) (T, error)) (Result[T], error) {
	if !replica.PositionFrom(ctx).IsZero() {
		c.Key = "" // neither the cache nor a loader that runs already can know of the write (REQ-D7)
	}
	if res, ok := fromCache[T](r, c, r.settings.Load().Degradable.MaxAge); ok {
		return res, nil
	}
	res, err := fromLate(ctx, r, c, load)
	if !r.unanswered(ctx, err) {
		return res, err
	}
	if res, err = loadOnce(ctx, r, c, load); !r.unanswered(ctx, err) {
		return res, err
	}
	return byDefault[T](r, ep, Degradable)
}

// fromLate reads from a replica that may be late, where that was chosen.
func fromLate[T any](ctx context.Context, r *Router, c Call, load func(context.Context) (T, error)) (Result[T], error) {
	req := r.requirement(Degradable)
	req.AcceptLate, req.Position = r.settings.Load().Degradable.LateReplicas, replica.PositionFrom(ctx)
	if req.AcceptLate <= 0 || !r.backend.Eligible(req) {
		return Result[T]{}, replica.ErrNoReplica
	}
	return fromReplica(ctx, r, c, Degradable, req, load)
}

func fromCache[T any](r *Router, c Call, maxAge time.Duration) (res Result[T], ok bool) {
	if r.cache == nil || c.Key == "" {
		return res, false
	}
	e, ok := r.cached(CacheKey{c.Endpoint, c.Key})
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
	if current := info.Current(); !current.IsZero() {
		r.keep(CacheKey{c.Endpoint, c.Key}, Entry{Value: v, Current: current})
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
		r.counts[Sheddable][sources].Add(1)
		return Result[T]{}, ep.shed
	}
	return byDefault[T](r, ep, Sheddable)
}
