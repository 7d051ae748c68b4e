package readpath

import "time"

// An Observer is told what happens to a Router, with no lock held, on the goroutine that found out:
// the watcher, or a caller whose read did. Its functions must be quick; a nil one is not called.
type Observer struct {
	// OnMode is called when the mode changes, or another class is given back.
	OnMode func(ModeChange)
	// OnOverBudget is called every 10 s for a critical endpoint whose rate exceeds the budget.
	OnOverBudget func(OverBudget)
}

// A ModeChange is one step of the mode.
type ModeChange struct {
	From, To Mode
	Given    []Class // classes that the replicas serve, in the order in which they were given back
	At       time.Time
}

// OverBudget says that an endpoint will be refused when the path is degraded (REQ-D13).
type OverBudget struct {
	Endpoint     string
	Rate, Budget float64 // reads a second
}
