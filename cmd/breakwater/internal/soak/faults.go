package main

import (
	"context"
	"log"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/consumer"
)

// A fault is broken and mended again.
type fault struct {
	what       string
	begin, end func(ctx context.Context) error
}

// holds is for how long a fault holds.
const holds = 4 * time.Second

// breakThings makes one fault after the other, until ctx ends.
func (s *soak) breakThings(ctx context.Context) {
	all := s.faultsInTurn()
	for i := 0; pause(ctx, s.fault-holds); i++ {
		f := all[i%len(all)]
		log.Print("fault: ", f.what)
		if err := f.begin(ctx); err != nil && ctx.Err() == nil {
			log.Printf("%s: %v", f.what, err)
		}
		s.faults++
		pause(ctx, holds)
		if err := f.end(context.WithoutCancel(ctx)); err != nil {
			log.Printf("the end of %s: %v", f.what, err)
		}
	}
}

func (s *soak) faultsInTurn() []fault {
	become := func(name string, b consumer.Behaviour) func(context.Context) error {
		return func(context.Context) error { return s.consumers[name].Become(b) }
	}
	of := func(name, what string, b consumer.Behaviour) fault {
		return fault{name + " " + what, become(name, b), become(name, consumer.Behaviour{})}
	}
	kill := func(name string) fault {
		return fault{name + " is killed", func(context.Context) error { return s.fleet.Kill(name) }, func(ctx context.Context) error { return s.fleet.Restart(ctx, name) }} //nolint:contextcheck // a signal waits for nobody
	}
	halt := func(name string) fault {
		return fault{
			name + " replays nothing", func(ctx context.Context) error { return s.fleet.Pause(ctx, name) }, func(ctx context.Context) error { return s.fleet.Resume(ctx, name) },
		}
	}
	frozen := func(name string) fault {
		return fault{name + " is frozen", func(context.Context) error { return s.fleet.Freeze(name) }, func(context.Context) error { return s.fleet.Thaw(name) }} //nolint:contextcheck // as above
	}
	return []fault{
		kill("r1"), of("ledger", "fails", consumer.Behaviour{Fail: true}), halt("r2"), of("mailer", "is slow", consumer.Behaviour{P99: 1500}),
		frozen("r3"), of("search", "hangs", consumer.Behaviour{Hang: true}),
	}
}
