package leaks

import (
	"runtime/pprof"
	"strings"
	"testing"
)

// With the profile a leak fails the run and is shown; without it nothing is checked.
func TestCheck(t *testing.T) {
	var out strings.Builder
	if got := check(3, &out); got != 3 || out.Len() > 0 {
		t.Errorf("a run that failed: got %d, %q", got, &out)
	}
	begun := make(chan struct{})
	go func(never chan int) { close(begun); <-never }(make(chan int))
	<-begun
	got := check(0, &out)
	switch has := pprof.Lookup("goroutineleak") != nil; {
	case !has && got != 0:
		t.Errorf("without the profile: got %d", got)
	case has && (got != 1 || !strings.Contains(out.String(), "TestCheck")):
		t.Errorf("with the profile: got %d, %q", got, &out)
	}
}
