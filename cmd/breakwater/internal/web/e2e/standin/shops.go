package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/emit/faultsink"
)

var consumers = []string{"billing", "search-index", "webhooks"}

// shops are real lanes to sinks that are ill as they are told.
type shops struct {
	router *emit.Router
	sinks  map[string]*faultsink.Sink
	rate   atomic.Int64 // triggers a second
}

func newShops(hub *api.Hub) (*shops, error) {
	s := &shops{sinks: map[string]*faultsink.Sink{}}
	s.rate.Store(60)
	config := emit.Config{Observer: hub.Consumers()}
	var errs []error
	for i, name := range consumers {
		sink, err := faultsink.New(faultsink.Config{Seed: uint64(i + 1), Faults: well(i)})
		errs = append(errs, err)
		s.sinks[name] = sink
		config.Consumers = append(config.Consumers, emit.Consumer{Name: name, Sink: sink, Timeout: 200 * time.Millisecond, Slow: time.Duration(40+20*i) * time.Millisecond})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var err error
	s.router, err = emit.New(config)
	return s, err
}

// well is how a healthy consumer answers.
func well(i int) faultsink.Faults {
	return faultsink.Faults{Latency: faultsink.Latency{Median: time.Duration(3+2*i) * time.Millisecond, P99: time.Duration(8+4*i) * time.Millisecond}}
}

func (s *shops) parts() api.Parts { return api.Parts{Router: s.router} }

func (s *shops) perSec() float64 { return float64(s.rate.Load()) }

// run emits at the rate, each on a goroutine of its own, and waits for all.
func (s *shops) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	due := 0.0
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		for due += s.perSec() / 20; due >= 1; due-- {
			n++
			running.Go(func() { s.emit(context.WithoutCancel(ctx), n) })
		}
	}
}

func (s *shops) emit(ctx context.Context, n int) {
	data, _ := json.Marshal(map[string]any{"order": n, "total": fmt.Sprintf("%d.90", n%97), "note": "<b>bold</b> & <script>alert(1)</script>"})
	priority := []string{"normal", "normal", "compliance", "idle-ping"}[n%4]
	_, _ = s.router.Emit(ctx, emit.Trigger{Type: "order.paid", Key: fmt.Sprintf("customer-%d", n%40), Priority: priority, Data: data}) // the status tells what became of it
}

// hurt makes a consumer ill; "" mends it.
func (s *shops) hurt(name, fault string, amount float64) error {
	i := 0
	for consumers[i] != name {
		i++
	}
	f := well(i)
	switch fault {
	case "slow":
		if amount == 0 {
			amount = 250
		}
		f.Latency = faultsink.Latency{Median: time.Duration(amount) * time.Millisecond}
	case "hang":
		f.Hangs = 1
	case "fail":
		f.Errors = 1
	}
	return s.sinks[name].Set(f)
}
