package emit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

// Two consumers get what is paid; one of them is down.
func ExampleRouter_Emit() {
	ledger := emit.SinkFunc(func(context.Context, emit.Trigger) error { return nil })
	mailer := emit.SinkFunc(func(context.Context, emit.Trigger) error { return errors.New("connection refused") })
	router, err := emit.New(emit.Config{Consumers: []emit.Consumer{
		{Name: "ledger", Sink: ledger, Types: []string{"order.paid"}, Ordered: true},
		{Name: "mailer", Sink: mailer, Timeout: time.Second, Slow: 300 * time.Millisecond},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()

	receipt, err := router.Emit(context.Background(), emit.Trigger{Type: "order.paid", Key: "customer 7", Data: []byte(`{"order":1}`)})
	for x := range receipt.Results() {
		fmt.Printf("%s: %s %q\n", x.Consumer, x.Outcome, x.Reason)
	}
	fmt.Println(err)
	// Output:
	// ledger: delivered ""
	// mailer: stored "failed"
	// <nil>
}

// A consumer is switched off for maintenance, and on again.
func ExampleRouter_Breaker() {
	taken := make(chan string, 1)
	router, err := emit.New(emit.Config{Consumers: []emit.Consumer{{Name: "ledger", Sink: emit.SinkFunc(
		func(_ context.Context, t emit.Trigger) error { taken <- t.ID; return nil },
	)}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()

	_ = router.Breaker("ledger").Force(breaker.ForcedOpen, "maintenance")
	receipt, _ := router.Emit(context.Background(), emit.Trigger{ID: "17", Type: "order.paid"})
	fmt.Println(receipt.Of("ledger").Outcome)
	_ = router.Breaker("ledger").Force(breaker.Closed, "done")
	fmt.Println("replayed", <-taken)
	// Output:
	// stored
	// replayed 17
}

// A Ring is bounded, and knows what is important: the least important letters make room.
func ExampleNewRing() {
	ring, err := emit.NewRing(emit.RingConfig{Letters: 3, Bytes: 64 << 10, Reserved: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, priority := range []int{2, 2, 1, 0, 2} {
		evicted, err := ring.Append(context.Background(), emit.Letter{
			Consumer: "ledger", Priority: priority, StoredAt: time.Now(), Trigger: emit.Trigger{ID: fmt.Sprint("t", i), Type: "order.paid"},
		})
		switch {
		case err != nil:
			fmt.Printf("t%d: %v\n", i, err)
		case len(evicted) > 0:
			fmt.Printf("t%d evicts %s\n", i, evicted[0].Trigger.ID)
		}
	}
	var kept []string
	for l := range ring.Letters(context.Background(), "ledger", emit.Filter{}) {
		kept = append(kept, l.Trigger.ID)
	}
	fmt.Println(slices.Sorted(slices.Values(kept)))
	// Output:
	// t3 evicts t0
	// t4: emit: dead letters are full
	// [t1 t2 t3]
}

// A consumer gets more time, and another one joins, while triggers come.
func ExampleRouter_Reconfigure() {
	ledger := emit.SinkFunc(func(context.Context, emit.Trigger) error { return nil })
	router, err := emit.New(emit.Config{Consumers: []emit.Consumer{{Name: "ledger", Sink: ledger}}})
	if err != nil {
		panic(err)
	}
	defer func() { _ = router.Close() }()
	c := router.Config()
	c.Consumers[0].Timeout = time.Second
	c.Consumers = append(c.Consumers, emit.Consumer{Name: "mailer", Sink: ledger})
	if err := router.Reconfigure(c); err != nil {
		panic(err)
	}
	receipt, err := router.Emit(context.Background(), emit.Trigger{Type: "order.paid"})
	fmt.Println(receipt.Of("ledger").Outcome, receipt.Of("mailer").Outcome, err)
	// Output: delivered delivered <nil>
}
