package pgxread

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

func intentOf(ctx context.Context) *route.Intent { return route.Of(ctx, intentKey{}) }

func withIntent(ctx context.Context, change func(*route.Intent)) context.Context {
	return route.With(ctx, intentKey{}, change)
}

// WithRead makes the Query, QueryRow, Exec and SendBatch calls of a DB under ctx reads
// with this requirement, and gives it to its read-only transactions. CopyFrom fails
// with ErrWriteInRead; Begin and read-write transactions stay on the primary.
//
// With req.PrimaryOnly such calls run in the primary's pool for reads (Config.PrimaryReadsDSN), whose
// sessions cannot write either.
func WithRead(ctx context.Context, req replica.Requirement) context.Context {
	return withIntent(ctx, func(in *route.Intent) { in.Read, in.Req = true, req })
}

// WithInfo has the reads under ctx fill in info; writes leave it alone.
func WithInfo(ctx context.Context, info *ReadInfo) context.Context {
	return withIntent(ctx, func(in *route.Intent) { in.Info, in.Together = info, nil })
}

// WithCallTimeout sets the call timeout of the calls under ctx in place of
// Config.CallTimeout, which 0 means. Negative: none.
func WithCallTimeout(ctx context.Context, d time.Duration) context.Context {
	return withIntent(ctx, func(in *route.Intent) { in.Timeout = d })
}
