package sqlread

import (
	"context"
	"time"

	"github.com/breakwater-go/breakwater/internal/route"
	"github.com/breakwater-go/breakwater/replica"
)

// ReadInfo tells the caller of one read which node it was sent to. It is written
// while the call runs: use one for each call at a time.
type ReadInfo = replica.ReadInfo

type intentKey struct{}

func withIntent(ctx context.Context, change func(*route.Intent)) context.Context {
	return route.With(ctx, intentKey{}, change)
}

// WithRead makes the calls of a DB under ctx reads with this requirement, and gives it
// to its read-only transactions; those that may write stay on the primary. A prepared
// statement is a read if the context that it is used with says so.
//
// With req.PrimaryOnly such calls run in the primary's pool for reads (Config.PrimaryReads), whose sessions
// cannot write either.
func WithRead(ctx context.Context, req replica.Requirement) context.Context {
	return withIntent(ctx, func(in *route.Intent) { in.Read, in.Req = true, req })
}

// WithInfo has the reads under ctx fill in info; writes leave it alone.
func WithInfo(ctx context.Context, info *ReadInfo) context.Context {
	return withIntent(ctx, func(in *route.Intent) { in.Info = info })
}

// WithCallTimeout sets the call timeout of the calls under ctx in place of
// Config.CallTimeout, which 0 means. Negative: none.
func WithCallTimeout(ctx context.Context, d time.Duration) context.Context {
	return withIntent(ctx, func(in *route.Intent) { in.Timeout = d })
}
