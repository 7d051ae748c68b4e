package lab

import (
	"slices"
	"time"
)

// published is what picks could see of a node from an instant on: that its newest sample
// was over the threshold, or that its breaker was not closed.
type published struct {
	at    time.Duration
	unfit bool
}

// always tells whether a node was unfit from before a read began until it was picked.
// The pick lies between the two instants, and its own stamp comes a little after it was
// decided: so what is counted is certain, and a machine that stalls counts nothing.
func always(told []published, begin, picked time.Duration) bool {
	for _, p := range slices.Backward(told) {
		switch {
		case p.at > picked:
		case !p.unfit:
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
