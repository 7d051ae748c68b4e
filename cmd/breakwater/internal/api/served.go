package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/breakwater-go/breakwater/readpath"
)

// served says in words what each class gets now.
func served(st *readpath.Stats, c *readpath.Config) map[readpath.Class]string {
	out := map[readpath.Class]string{}
	for _, class := range []readpath.Class{readpath.Critical, readpath.Degradable, readpath.Sheddable} {
		if slices.Contains(st.Withheld, class) {
			out[class] = withheld(class, c)
		} else {
			out[class] = "the replicas"
		}
	}
	return out
}

// withheld says what a class gets from which the replicas are withheld.
func withheld(class readpath.Class, c *readpath.Config) string {
	switch class {
	case readpath.Critical:
		return fmt.Sprintf("the primary within its budget, else refused: retry after %v", c.Critical.RetryAfter)
	case readpath.Degradable:
		return degradable(c)
	default:
		return fmt.Sprintf("the endpoint's default, else refused: retry after %v", c.Sheddable.RetryAfter)
	}
}

func degradable(c *readpath.Config) string {
	var from []string
	if c.Cache != nil {
		from = append(from, fmt.Sprintf("the cache up to %v old, flagged stale", c.Degradable.MaxAge))
	}
	if d := c.Degradable.LateReplicas; d > 0 {
		from = append(from, fmt.Sprintf("a late replica up to %v old, flagged stale", d))
	}
	return strings.Join(append(from, "the primary within its budget", "the endpoint's default, flagged stale"), "; else ")
}
