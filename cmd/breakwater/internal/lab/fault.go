package lab

import (
	"context"

	"github.com/breakwater-go/breakwater/internal/relay"
)

// fault is one way to break a replica or its link, and to mend it.
type fault struct {
	name        string
	begin, heal func(ctx context.Context, f Fleet, node string) error
	lag         bool // the node still answers; it only falls behind
}

var (
	pauseReplay = fault{
		name: "replay_paused", lag: true,
		begin: func(ctx context.Context, f Fleet, n string) error { return f.Pause(ctx, n) },
		heal:  func(ctx context.Context, f Fleet, n string) error { return f.Resume(ctx, n) },
	}
	linkRefused   = cut("link_refused", relay.Refuse)
	linkSwallowed = cut("link_swallowed", relay.Blackhole)
	frozen        = fault{
		name:  "frozen",
		begin: func(_ context.Context, f Fleet, n string) error { return f.Freeze(n) },
		heal:  func(_ context.Context, f Fleet, n string) error { return f.Thaw(n) },
	}
	killed = fault{
		name:  "killed",
		begin: func(_ context.Context, f Fleet, n string) error { return f.Kill(n) },
		heal:  func(ctx context.Context, f Fleet, n string) error { return f.Restart(ctx, n) },
	}
	faults = []fault{pauseReplay, linkRefused, linkSwallowed, frozen, killed}
)

func cut(name string, mode relay.Mode) fault {
	return fault{
		name: name, lag: true,
		begin: func(_ context.Context, f Fleet, n string) error { return f.CutLink(n, mode) },
		heal:  func(_ context.Context, f Fleet, n string) error { return f.HealLink(n) },
	}
}
