package playground

import (
	"context"
	"math"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/consumer"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/internal/relay"
)

// target is what can be broken.
type target struct {
	name, scope string
	kinds       []kind
}

func (t target) kind(name string) (kind, bool) {
	for _, k := range t.kinds {
		if k.name == name {
			return k, true
		}
	}
	return kind{}, false
}

func (t target) faults() (all []string) {
	for _, k := range t.kinds {
		all = append(all, k.name)
	}
	return all
}

// kind is one way to break a target, and to mend it.
type kind struct {
	name, says string
	usual      time.Duration // its amount where none is asked for; 0: it has none
	lasts      time.Duration // where no duration is asked for; 0: until it is mended
	begin      func(ctx context.Context, target string, amount time.Duration) error
	mend       func(ctx context.Context, target string) error
}

// maxAmount bounds lag and latency.
const maxAmount = 10 * time.Minute

// take is the amount of a request, in ms; false: it makes no sense.
func (k kind) take(asked float64) (time.Duration, bool) {
	switch {
	case math.IsNaN(asked) || asked < 0 || asked > float64(maxAmount.Milliseconds()):
		return 0, false
	case asked == 0:
		return k.usual, true
	}
	return max(time.Duration(asked*float64(time.Millisecond)), time.Millisecond), k.usual > 0
}

// targets are the primary, the replicas and the consumers.
func targets(f lab.Fleet, k *consumers) []target {
	nodes := f.Nodes()
	all := []target{{nodes[0].Name, api.TargetPrimary, primaryKinds(f)}}
	for _, n := range nodes[1:] {
		all = append(all, target{n.Name, api.ScopeReplica, replicaKinds(f)})
	}
	for _, name := range names {
		all = append(all, target{name, api.ScopeConsumer, consumerKinds(k.processes[name])})
	}
	return all
}

func replicaKinds(f lab.Fleet) []kind {
	pause := kind{
		name: "pause", says: "replay is paused",
		begin: func(ctx context.Context, n string, _ time.Duration) error { return f.Pause(ctx, n) }, mend: f.Resume,
	}
	lag := kind{
		name: "lag", says: "each commit is replayed late", usual: 5 * time.Second, begin: f.SetApplyDelay,
		mend: func(ctx context.Context, n string) error { return f.SetApplyDelay(ctx, n, 0) },
	}
	kill := kind{
		name: "kill", says: "the server is killed",
		begin: func(_ context.Context, n string, _ time.Duration) error { return f.Kill(n) }, mend: f.Restart,
	}
	return []kind{pause, lag, link(f, "cut", "the link to the primary is cut", relay.Refuse), link(f, "blackhole", "the link to the primary swallows all", relay.Blackhole), freeze(f), kill}
}

func link(f lab.Fleet, name, says string, mode relay.Mode) kind {
	return kind{
		name: name, says: says,
		begin: func(_ context.Context, n string, _ time.Duration) error { return f.CutLink(n, mode) },
		mend:  func(_ context.Context, n string) error { return f.HealLink(n) },
	}
}

func freeze(f lab.Fleet) kind {
	return kind{
		name: "freeze", says: "the server is stopped with all its processes",
		begin: func(_ context.Context, n string, _ time.Duration) error { return f.Freeze(n) },
		mend:  func(_ context.Context, n string) error { return f.Thaw(n) },
	}
}

// restartLasts is for how long a primary is away that is restarted.
const restartLasts = 3 * time.Second

func primaryKinds(f lab.Fleet) []kind {
	restart := kind{
		name: "restart", says: "the server is killed, to be started again", lasts: restartLasts,
		begin: func(_ context.Context, n string, _ time.Duration) error { return f.Kill(n) }, mend: f.Restart,
	}
	return []kind{freeze(f), restart}
}

func consumerKinds(p *consumer.Process) []kind {
	mend := func(context.Context, string) error { return p.Become(well) }
	becomes := func(name, says string, usual time.Duration, how func(p99 float64) consumer.Behaviour) kind {
		return kind{name: name, says: says, usual: usual, mend: mend, begin: func(_ context.Context, _ string, amount time.Duration) error {
			return p.Become(how(float64(amount.Milliseconds())))
		}}
	}
	return []kind{
		becomes("slow", "its latency grows to this P99", slowP99*time.Millisecond, func(p99 float64) consumer.Behaviour { return consumer.Behaviour{P99: p99} }),
		becomes("partly_slow", "2 % of its calls have this P99", slowP99*time.Millisecond, func(p99 float64) consumer.Behaviour {
			return consumer.Behaviour{P99: healthyP99, SlowShare: slowShare, SlowP99: p99}
		}),
		becomes("hang", "it takes calls and never answers", 0, func(float64) consumer.Behaviour { return consumer.Behaviour{Hang: true} }),
		becomes("fail", "it answers 500", 0, func(float64) consumer.Behaviour { return consumer.Behaviour{Fail: true} }),
	}
}
