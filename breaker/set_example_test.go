package breaker_test

import (
	"context"
	"fmt"

	"github.com/breakwater-go/breakwater/breaker"
)

func ExampleSet() {
	hosts, err := breaker.NewSet(breaker.SetConfig[string]{
		Config: breaker.Config{Name: "emit", Rules: []breaker.Rule{breaker.ConsecutiveFailures{Count: 2}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	call := func(context.Context) (string, error) { return "", errDown }
	for range 3 {
		_, err = breaker.Do(context.Background(), hosts.Get("a.example"), call)
		fmt.Println(err)
	}
	fmt.Println("b.example is", hosts.Get("b.example").State())
	// Output:
	// connection reset
	// connection reset
	// breaker: "emit/a.example" is open: consecutive_failures 2 ≥ 2 (last error: connection reset)
	// b.example is closed
}

func ExampleSetConfig() {
	tenants, err := breaker.NewSet(breaker.SetConfig[int]{
		For: func(tenant int, c breaker.Config) breaker.Config {
			if tenant == 1 { // the one that must not be cut off so soon
				c.Rules = []breaker.Rule{breaker.ConsecutiveFailures{Count: 20}}
			}
			return c
		},
		Max: 50_000,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tenants.Get(1).Stats().ConsecutiveLimit, tenants.Get(2).Stats().ConsecutiveLimit)
	// Output: 20 5
}
