package api

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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
		return "the primary within its budget, else refused: retry after " + spoken(c.Critical.RetryAfter)
	case readpath.Degradable:
		return degradable(c)
	default:
		return "the endpoint's default, else refused: retry after " + spoken(c.Sheddable.RetryAfter)
	}
}

func degradable(c *readpath.Config) string {
	var from []string
	if c.Cache != nil {
		from = append(from, fmt.Sprintf("the cache up to %s old, flagged stale", spoken(c.Degradable.MaxAge)))
	}
	if d := c.Degradable.LateReplicas; d > 0 {
		from = append(from, fmt.Sprintf("a late replica up to %s old, flagged stale", spoken(d)))
	}
	return strings.Join(append(from, "the primary within its budget", "the endpoint's default, flagged stale"), "; else ")
}

// spoken is a duration as people write it: "5 min", "90 s", "1.5 s", "250 ms".
func spoken(d time.Duration) string {
	for _, unit := range []struct {
		name string
		of   time.Duration
	}{{" h", time.Hour}, {" min", time.Minute}} {
		if d >= unit.of && d%unit.of == 0 {
			return strconv.FormatInt(int64(d/unit.of), 10) + unit.name
		}
	}
	if d < time.Second {
		return number(ms(d)) + " ms"
	}
	return number(d.Seconds()) + " s"
}
