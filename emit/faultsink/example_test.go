package faultsink_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/emit/faultsink"
	"github.com/breakwater-go/breakwater/emit/httpsink"
)

// A consumer that fails, then recovers.
func Example() {
	sink, err := faultsink.New(faultsink.Config{Seed: 1, Faults: faultsink.Faults{Errors: 1}})
	if err != nil {
		fmt.Println(err) // every fault of the Config
		return
	}
	ctx := context.Background()
	fmt.Println(sink.Deliver(ctx, emit.Trigger{ID: "1", Key: "k"}))
	if err := sink.Set(faultsink.Faults{}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(sink.Deliver(ctx, emit.Trigger{ID: "1", Key: "k"}), sink.Taken("k"), sink.Stats().Failed)
	// Output:
	// faultsink: failed on purpose
	// <nil> [1] 1
}

// The same as a consumer's server.
func ExampleHandler() {
	sink, err := faultsink.New(faultsink.Config{Faults: faultsink.Faults{Rejects: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(faultsink.Handler{Sink: sink})
	defer server.Close()

	consumer, err := httpsink.New(httpsink.Config{URL: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer consumer.CloseIdleConnections()
	err = consumer.Deliver(context.Background(), emit.Trigger{ID: "1", Type: "order.paid", Source: "/shop"})
	fmt.Println(errors.Is(err, emit.ErrRejected))
	// Output: true
}

// Billing hung in the second run; mail must not have noticed.
func ExampleIsolation() {
	var without, with faultsink.Run
	for range 100 { // in a test: emit, and add what came of it
		without.Add("billing", 4*time.Millisecond, emit.Delivered)
		without.Add("mail", 4*time.Millisecond, emit.Delivered)
		with.Add("billing", time.Millisecond, emit.Stored)
		with.Add("mail", 9*time.Millisecond, emit.Delivered)
	}
	isolation := faultsink.Isolation{Faulty: []string{"billing"}, MaxRatio: 2, Slack: time.Millisecond}
	fmt.Println(isolation.Check(&without, &with))
	// Output:
	// faultsink: isolation does not hold
	// consumer  fault  emitted    delivered  diverted  failed  p99        ratio
	// billing   yes    100 → 100  100 → 0    0 → 100   0 → 0   4ms → 1ms  0.25
	// mail      no     100 → 100  100 → 100  0 → 0     0 → 0   4ms → 9ms  2.25
	// - mail: the latency grew from 4ms to 9ms, by more than the ratio of 2
}
