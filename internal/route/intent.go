package route

import (
	"context"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/replica"
)

// Intent is what a context says about the calls made under it. The zero value says nothing.
type Intent struct {
	// Read says that the calls are reads, with the requirement Req.
	Read bool
	Req  replica.Requirement
	// Info is filled in by reads; nil: nobody asks.
	Info *replica.ReadInfo
	// Together is not nil where Info tells of all statements under the context together, which may run at once; it guards Info.
	Together *sync.Mutex
	// Timeout is the call timeout. 0: the driver's own; negative: none.
	Timeout time.Duration
}

var none Intent //nolint:gochecknoglobals // the zero Intent, never written

// Of is the Intent that ctx has under key, a type of each driver's own. It is never nil, and not to
// be changed.
func Of(ctx context.Context, key any) *Intent {
	if in, ok := ctx.Value(key).(*Intent); ok {
		return in
	}
	return &none
}

// With returns a context whose Intent under key is that of ctx, changed.
func With(ctx context.Context, key any, change func(*Intent)) context.Context {
	in := *Of(ctx, key)
	change(&in)
	return context.WithValue(ctx, key, &in)
}

// reading is a context with its Intent and the lock of that, in one allocation.
type reading struct {
	context.Context

	key any
	in  Intent
	mu  sync.Mutex
}

// Value finds the Intent, then what the context around holds.
func (r *reading) Value(key any) any {
	if key == r.key {
		return &r.in
	}
	return r.Context.Value(key)
}

// Reading returns a context whose calls are reads with this requirement, which fill in info together.
func Reading(ctx context.Context, key any, req replica.Requirement, info *replica.ReadInfo) context.Context {
	r := &reading{Context: ctx, key: key, in: *Of(ctx, key)}
	r.in.Read, r.in.Req, r.in.Info, r.in.Together = true, req, info, &r.mu
	return r
}

// Picked has Info tell of the node that was chosen.
func (in *Intent) Picked(choice *replica.Choice) {
	if in.Info == nil {
		return
	}
	in.lock()
	defer in.unlock()
	earlier := *in.Info
	*in.Info = choice.Info()
	in.Info.Attempts = earlier.Attempts
	if in.Together != nil {
		in.Info.Merge(earlier)
	}
}

// Attempted has Info tell how many nodes the statement was tried on.
func (in *Intent) Attempted(n int) {
	if in.Info == nil {
		return
	}
	in.lock()
	defer in.unlock()
	in.Info.Attempts = n
}

func (in *Intent) lock() {
	if in.Together != nil {
		in.Together.Lock()
	}
}

func (in *Intent) unlock() {
	if in.Together != nil {
		in.Together.Unlock()
	}
}
