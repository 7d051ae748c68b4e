package api

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/breakwater-go/breakwater/emit"
)

// maxReplays is how many replays that were asked for may be under way.
const maxReplays = 16

// replays are those that were asked for.
type replays struct {
	ctx     context.Context //nolint:containedctx // of the goroutines, which outlive their callers
	stop    context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex
	n       int
	closed  bool
}

func (r *replays) init() { r.ctx, r.stop = context.WithCancel(context.Background()) }

func (r *replays) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.running.Wait()
}

// begin runs f on a goroutine, unless too many run.
func (r *replays) begin(f func(ctx context.Context)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.n == maxReplays {
		return fmt.Errorf("%w: %d replays are under way: wait for one of them", ErrBusy, r.n)
	}
	r.n++
	r.running.Go(func() {
		defer r.end()
		f(r.ctx)
	})
	return nil
}

func (r *replays) end() {
	r.mu.Lock()
	r.n--
	r.mu.Unlock()
}

// Replay has the letters delivered that match, at the pace of the lane, and returns at once with how many there are. It goes on until none of them is left to
// try, or Close; that it failed is told as a fault. The error is an *UnknownError or an *InvalidError, matches ErrBusy, or is the store's.
func (s *Standard) Replay(ctx context.Context, consumer string, f LetterFilter) (int, error) {
	router, filter, n, err := s.matching(ctx, consumer, f)
	if err != nil || n == 0 {
		return 0, err
	}
	return n, s.replays.begin(func(ctx context.Context) {
		if _, err := router.Replay(ctx, consumer, filter); err != nil && ctx.Err() == nil {
			s.conf.Hub.Fault("replay of "+consumer, err)
		}
	})
}

// Discard deletes the letters that match and are not being delivered just now, and returns how many. The errors are those of Replay.
func (s *Standard) Discard(ctx context.Context, consumer string, f LetterFilter, _ string) (int, error) {
	router, filter, n, err := s.matching(ctx, consumer, f)
	if err != nil || n == 0 {
		return 0, err
	}
	return router.Discard(ctx, consumer, filter)
}

// matching finds what a filter means, and how many letters match.
func (s *Standard) matching(ctx context.Context, consumer string, f LetterFilter) (r *emit.Router, filter emit.Filter, n int, err error) {
	r, filter, err = f.of(s.Parts(), consumer)
	if err == nil && f.Seq != 0 {
		filter, err = one(ctx, r, consumer, f.Seq, filter)
	}
	if err != nil {
		return nil, filter, 0, err
	}
	for _, err := range r.Letters(ctx, consumer, filter) {
		if err != nil {
			return nil, filter, 0, err
		}
		n++
	}
	if f.Seq != 0 && n > 1 { // stored within the same nanosecond, and alike
		return nil, filter, 0, &InvalidError{[]FieldFault{{"seq", strconv.FormatUint(f.Seq, 10), fmt.Sprintf("leave it out: %d letters cannot be told from it", n)}}}
	}
	return r, filter, n, nil
}

// of is what the filter means to the Router, with every fault of it.
func (f *LetterFilter) of(p Parts, consumer string) (*emit.Router, emit.Filter, error) {
	names := owners(p)
	if !slices.Contains(names, consumer) {
		return nil, emit.Filter{}, &UnknownError{What: "consumer", Name: consumer, Known: names}
	}
	settings := p.Router.Config()
	filter := emit.Filter{Types: f.Types, Key: f.Key, Parked: f.Parked}
	var faults []FieldFault
	for _, name := range f.Priorities {
		i := slices.Index(settings.Priorities, name)
		if i < 0 {
			faults = append(faults, FieldFault{"priorities", strconv.Quote(name), "use " + strings.Join(settings.Priorities, ", ")})
		}
		filter.Priorities = append(filter.Priorities, i)
	}
	for _, name := range f.Reasons {
		if !slices.Contains(reasons(), emit.Reason(name)) {
			faults = append(faults, FieldFault{"reasons", strconv.Quote(name), fmt.Sprintf("use one of %v", reasons())})
		}
		filter.Reasons = append(filter.Reasons, emit.Reason(name))
	}
	return p.Router, filter, invalid(faults)
}

func reasons() []emit.Reason {
	return []emit.Reason{
		emit.ReasonOpen, emit.ReasonForcedOpen, emit.ReasonBulkhead, emit.ReasonTimeout, emit.ReasonFailed, emit.ReasonBehind,
		emit.ReasonShutdown, emit.ReasonRejected, emit.ReasonPoison, emit.ReasonReceived,
	}
}

// one narrows a filter to one letter. A Router knows letters above a Seq only, and so it is told by when it was stored too.
func one(ctx context.Context, r *emit.Router, consumer string, seq uint64, filter emit.Filter) (emit.Filter, error) {
	filter.After = seq - 1
	for l, err := range r.Letters(ctx, consumer, filter) {
		if err != nil {
			return filter, err
		}
		if l.Seq != seq {
			break
		}
		filter.From, filter.To = l.StoredAt, l.StoredAt.Add(1)
		filter.Types, filter.Priorities = []string{l.Trigger.Type}, []int{l.Priority}
		return filter, nil
	}
	return filter, &UnknownError{What: "letter that matches and has the seq", Name: strconv.FormatUint(seq, 10)}
}
