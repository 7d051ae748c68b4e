//go:build !race

// One goroutine walks: the race detector would find nothing, and take minutes.

package breakerstates

import (
	"strings"
	"testing"
)

// In every state that three callers can reach, however many calls they make: never more than two
// probes at once, leases that are over aside; moves follow one another legally; each call counts once,
// and only in its own generation; no slot is lost; somebody can always go on (REQ-B5, REQ-B8).
func TestEveryInterleaving(t *testing.T) {
	states, err := explore(sound)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states", states)
	if states < 10_000 {
		t.Error("so few states that something was left out")
	}
}

// With a guard left out the walk finds what it is for.
func TestEachGuardIsNeeded(t *testing.T) {
	for v, want := range map[variant]string{
		noGenerationInSuccess: "in another generation",
		noUndo:                "too many counted",
		noGenerationInFailure: "in another generation",
		noGenerationInProbe:   "in another generation",
		noOwnerInProbe:        "whose slot another one has",
		noRelook:              "by a half-open that was over",
		noGiveBack:            "is lost",
		freeByStore:           "probes at once",
		noGenerationInTimer:   "by the timer of another state",
		wordBeforeCell:        "in another generation",
		cellStored:            "too many counted",
		slotsEmptied:          "probes at once",
	} {
		states, err := explore(v)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("variant %d: got %v, want %q", v, err, want)
		}
		t.Logf("variant %d, %d states: %v", v, states, err)
	}
}
