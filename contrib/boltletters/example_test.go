package boltletters_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/breakwater-go/breakwater/contrib/boltletters"
	"github.com/breakwater-go/breakwater/emit"
)

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
