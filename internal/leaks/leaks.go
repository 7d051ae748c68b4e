// Package leaks ends a test run with the runtime's goroutine-leak profile: the goroutines
// that wait for something which nobody can reach any more. The profile exists in programs
// built with GOEXPERIMENT=goroutineleakprofile, as `make leaks` does; in others nothing is checked.
package leaks

import (
	"fmt"
	"io"
	"os"
	"runtime/pprof"
)

// Check is for the end of a TestMain: it returns the code that it is given, or 1 if that is
// 0 and goroutines have leaked, which it prints.
func Check(code int) int { return check(code, os.Stderr) }

func check(code int, w io.Writer) int {
	profile := pprof.Lookup("goroutineleak")
	if profile == nil || code != 0 {
		return code
	}
	// Writing the profile looks for leaks; before, the count is that of the look before.
	if err := profile.WriteTo(io.Discard, 1); err != nil {
		_, _ = fmt.Fprintln(w, "leaks:", err)
		return 1
	}
	if profile.Count() == 0 {
		return 0
	}
	_, _ = fmt.Fprintln(w, "leaks: goroutines that wait for what nobody can reach:")
	_ = profile.WriteTo(w, 1)
	return 1
}
