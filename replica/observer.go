package replica

import (
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// Observer is told what happens in a Set; nil functions are skipped.
// The package doc says on which goroutine and in which order.
type Observer struct {
	// OnTransition reports a breaker's change of state; Transition.Name is the node's name.
	OnTransition func(breaker.Transition)
	// OnSample reports each sample, after it was published to Pick.
	OnSample func(Sample)
	// OnCondition reports that a node's condition changed (as its samples tell it, not its breaker).
	OnCondition func(ConditionChange)
	// OnFault reports a fault of Breakwater's own parts: a panic in a driver, a classifier or an observer,
	// or a primary that could not be asked to flush (Part "Flush").
	OnFault func(breaker.Fault)
}

// Sample is the published result of one look at a node.
type Sample struct {
	Node      string
	At        time.Time // when it was published
	Primary   bool
	Lo, Hi    time.Duration // Hi as of At; Never: not bounded
	Position  uint64
	Condition Condition
	Err       error // why the look failed
}

// ConditionChange tells that a node's condition changed.
type ConditionChange struct {
	Node     string
	At       time.Time
	From, To Condition
	Detail   string
}
