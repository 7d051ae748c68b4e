package boltletters_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/breakwater-go/breakwater/contrib/boltletters"
	"github.com/breakwater-go/breakwater/emit"
)

// A consumer is down, and the process ends; the next one delivers what the consumer missed.
func Example() {
	dir, err := os.MkdirTemp("", "letters")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	// process is one life of a program: it opens the store first and closes it last.
	process := func(mailer emit.SinkFunc, do func(*emit.Router)) {
		letters, err := boltletters.Open(context.Background(), boltletters.Config{Dir: dir, MaxBytes: 64 << 20})
		if err != nil {
			panic(err)
		}
		router, err := emit.New(emit.Config{DeadLetters: letters, Consumers: []emit.Consumer{{Name: "mailer", Sink: mailer}}})
		if err != nil {
			panic(err)
		}
		do(router)
		deadline, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		fmt.Println("ended:", router.Drain(deadline), letters.Close())
	}
	down := func(context.Context, emit.Trigger) error { return errors.New("connection refused") }
	process(down, func(router *emit.Router) {
		receipt, err := router.Emit(context.Background(), emit.Trigger{ID: "4711", Type: "order.paid"})
		fmt.Println(receipt.Of("mailer").Outcome, err)
	})
	taken := make(chan string, 1)
	up := func(_ context.Context, t emit.Trigger) error { taken <- t.ID; return nil }
	process(up, func(*emit.Router) { fmt.Println("delivered", <-taken) })
	// Output:
	// stored <nil>
	// ended: <nil> <nil>
	// delivered 4711
	// ended: <nil> <nil>
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "letters")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	config := boltletters.Config{Dir: dir, MaxBytes: 64 << 20}

	letters, err := boltletters.Open(ctx, config)
	if err != nil {
		panic(err)
	}
	// It is on the disk when this returns.
	_, err = letters.Append(ctx, emit.Letter{
		Consumer: "billing", Priority: 1, Reason: emit.ReasonOpen, StoredAt: time.Now(),
		Trigger: emit.Trigger{ID: "7", Type: "order.paid", Time: time.Now()},
	})
	fmt.Println(err, letters.Close())

	letters, err = boltletters.Open(ctx, config)
	if err != nil {
		panic(err)
	}
	claimed, err := letters.Claim(ctx, "billing", emit.Filter{}, 10)
	fmt.Println(len(claimed), claimed[0].Trigger.ID, err)
	err = letters.Settle(ctx, "billing", []emit.Settlement{{Seq: claimed[0].Seq, Delivered: true}})
	fmt.Println(err, letters.Depths()["billing"].Letters, letters.Close())
	// Output:
	// <nil> <nil>
	// 1 7 <nil>
	// <nil> 0 <nil>
}
