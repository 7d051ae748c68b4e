package api

import (
	"maps"
	"slices"

	"github.com/breakwater-go/breakwater/emit"
)

// consumerOf is a consumer as it is configured, the zero value where there is none.
func consumerOf(c *emit.Config, name string) emit.Consumer {
	if i := slices.IndexFunc(c.Consumers, func(k emit.Consumer) bool { return k.Name == name }); i >= 0 {
		return c.Consumers[i]
	}
	return emit.Consumer{}
}

// owners are those who have dead letters: the consumers, and those that are configured no more.
func owners(p Parts) (names []string) {
	if p.Router == nil {
		return nil
	}
	return append(consumerNames(p), slices.Sorted(maps.Keys(p.Router.Stats().Absent))...)
}
