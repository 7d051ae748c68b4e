//go:build race

package emitmodel_test

import (
	"os"
	"runtime"
	"testing"
)

// TestMain gives the model one processor under the race detector. Go 1.26 runs a timer of a bubble that is due at
// once on the goroutine that arms it, in a race context that the whole bubble shares
// (runtime.timer.modify and unlockAndRun), so two goroutines at once that arm such timers end the process with a
// segmentation fault. Four that call time.AfterFunc(0, f) in a loop do so within a second, and never on one processor.
// The detector judges by what happens before what, which it sees on one as well.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}
