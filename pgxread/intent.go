package pgxread

import (
	"context"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// ReadInfo tells the caller of one read which node it was sent to. It is written
// while the call runs: use one for each call at a time.
type ReadInfo = readpath.ReadInfo

// intent is what a context says about the calls made under it.
type intent struct {
	read     bool
	req      replica.Requirement
	info     *ReadInfo
	together *sync.Mutex   // not nil: info tells of all statements under the context together, which may run at once; guards it
	timeout  time.Duration // 0: Config.CallTimeout; negative: none
}

type intentKey struct{}

// intentOf never returns nil; the result is not to be changed.
func intentOf(ctx context.Context) *intent {
	if in, ok := ctx.Value(intentKey{}).(*intent); ok {
		return in
	}
	return &noIntent
}

var noIntent intent //nolint:gochecknoglobals // the zero intent, never written

func withIntent(ctx context.Context, change func(*intent)) context.Context {
	in := *intentOf(ctx)
	change(&in)
	return context.WithValue(ctx, intentKey{}, &in)
}

// WithRead makes the Query, QueryRow, Exec and SendBatch calls of a DB under ctx reads
// with this requirement, and gives it to its read-only transactions. CopyFrom fails
// with ErrWriteInRead; Begin and read-write transactions stay on the primary.
//
// With req.PrimaryOnly such calls run in the primary's pool for reads (Config.PrimaryReadsDSN), whose
// sessions cannot write either.
func WithRead(ctx context.Context, req replica.Requirement) context.Context {
	return withIntent(ctx, func(in *intent) { in.read, in.req = true, req })
}

// WithInfo has the reads under ctx fill in info; writes leave it alone.
func WithInfo(ctx context.Context, info *ReadInfo) context.Context {
	return withIntent(ctx, func(in *intent) { in.info, in.together = info, nil })
}

// WithCallTimeout sets the call timeout of the calls under ctx in place of
// Config.CallTimeout, which 0 means. Negative: none.
func WithCallTimeout(ctx context.Context, d time.Duration) context.Context {
	return withIntent(ctx, func(in *intent) { in.timeout = d })
}

func (in *intent) picked(choice *replica.Choice) {
	if in.info == nil {
		return
	}
	in.lock()
	defer in.unlock()
	earlier := *in.info
	in.info.Node, in.info.Primary, in.info.Unverified = choice.Name(), choice.Primary(), choice.Unverified()
	in.info.Lo, in.info.Hi = choice.Staleness()
	in.info.PickedAt = choice.At()
	in.info.Late = choice.Late()
	if in.together != nil {
		in.info.Merge(earlier)
	}
}

func (in *intent) attempts(n int) {
	if in.info == nil {
		return
	}
	in.lock()
	defer in.unlock()
	in.info.Attempts = n
}

func (in *intent) lock() {
	if in.together != nil {
		in.together.Lock()
	}
}

func (in *intent) unlock() {
	if in.together != nil {
		in.together.Unlock()
	}
}
