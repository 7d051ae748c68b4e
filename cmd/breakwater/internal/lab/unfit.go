package lab

import (
	"slices"
	"time"
)

// published is what picks could see of a node from an instant on: the lag that its newest
// sample told. What bars a node altogether, a failed sample or an open breaker, is a lag of Never.
type published struct {
	at, lag time.Duration
}

// always tells whether a node was over the limit from before a read began until it was picked.
// The pick lies between the two instants, and its own stamp comes a little after it was
// decided: so what is counted is certain, and a machine that stalls counts nothing.
func always(told []published, limit, begin, picked time.Duration) bool {
	for _, p := range slices.Backward(told) {
		switch {
		case p.at > picked:
		case p.lag <= limit:
			return false
		case p.at < begin:
			return true
		}
	}
	return false
}

func keep(told []published, p published) []published {
	told = append(told, p)
	if len(told) > 2*keptSamples {
		told = slices.Clone(told[len(told)-keptSamples:])
	}
	return told
}
