package readpath_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// noReplica stands for pgxread's DB.Backend while no replica is fresh enough.
type noReplica struct{}

type primaryKey struct{}

func (noReplica) WithRead(ctx context.Context, req replica.Requirement, info *readpath.ReadInfo) context.Context {
	info.Primary = req.PrimaryOnly
	return context.WithValue(ctx, primaryKey{}, req.PrimaryOnly)
}

func (noReplica) Eligible(req replica.Requirement) bool { return req.PrimaryOnly }
func (noReplica) Sampled() bool                         { return true }
func (noReplica) Failed(error) bool                     { return false }

// query stands for a read of the database.
func query(ctx context.Context) (string, error) {
	if ctx.Value(primaryKey{}) == true {
		return "from the primary", nil
	}
	return "", replica.ErrNoReplica
}

// Three classes of reads while no replica is fresh enough.
func Example() {
	router, err := readpath.New(readpath.Config{
		Backend: noReplica{}, // db.Backend() of pgxread
		Endpoints: map[string]readpath.Endpoint{
			"balance": {Class: readpath.Critical},
			"product": {Class: readpath.Degradable, Default: "unknown"},
			"related": {Class: readpath.Sheddable},
		},
		Budget: readpath.Budget{Rate: 0.1, Burst: 1, CriticalShare: -1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	for _, name := range []string{"balance", "balance", "product", "related"} {
		res, err := readpath.Get(context.Background(), router, readpath.Call{Endpoint: name}, query)
		if refused, ok := errors.AsType[*readpath.RefusedError](err); ok {
			fmt.Println(err, refused.RetryAfter() > 0)
			continue
		}
		fmt.Printf("%s: %q, stale: %v\n", name, res.Value, res.Stale)
	}
	// Output:
	// balance: "from the primary", stale: false
	// readpath: critical read of "balance" refused, degraded: no replica may take it, and the primary has no room, or does not answer true
	// product: "unknown", stale: true
	// readpath: sheddable read of "related" refused, shed: no replica may take it true
}

// In a test of the program: every read that it makes is registered.
func ExampleRouter_Missing() {
	router, err := readpath.New(readpath.Config{
		Backend:   noReplica{},
		Endpoints: map[string]readpath.Endpoint{"balance": {Class: readpath.Critical}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	fmt.Println(router.Missing("balance", "orders", "product"))
	// Output: [orders product]
}

// An endpoint without a class is refused at the start (REQ-D2).
func ExampleNew() {
	_, err := readpath.New(readpath.Config{
		Backend:   noReplica{},
		Endpoints: map[string]readpath.Endpoint{"balance": {}},
		Budget:    readpath.Budget{Rate: -1},
	})
	fmt.Println(err)
	// Output:
	// readpath: Budget.Rate is -1: use reads a second above 0, or 0 for 200
	// readpath: Endpoints["balance"].Class is class(0): say how critical it is: Critical, Degradable or Sheddable
}
