package api

import (
	"maps"
	"slices"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

// consumerOf is a consumer as it is configured, the zero value where there is none.
func consumerOf(c *emit.Config, name string) emit.Consumer {
	if i := slices.IndexFunc(c.Consumers, func(k emit.Consumer) bool { return k.Name == name }); i >= 0 {
		return c.Consumers[i]
	}
	return emit.Consumer{}
}

// openOf is how long a lane's breaker stays open: what is configured, or the lane's default as package emit has it. Where one
// part of it is changed the others are to stay.
func openOf(b breaker.Backoff) breaker.Backoff {
	if b == (breaker.Backoff{}) {
		return breaker.Backoff{Base: 100 * time.Millisecond, Max: 2 * time.Second, Jitter: 20 * time.Millisecond, Sticky: 10 * time.Second}
	}
	return b
}

// owners are those who have dead letters: the consumers, and those that are configured no more.
func owners(p Parts) (names []string) {
	if p.Router == nil {
		return nil
	}
	return append(consumerNames(p), slices.Sorted(maps.Keys(p.Router.Stats().Absent))...)
}
