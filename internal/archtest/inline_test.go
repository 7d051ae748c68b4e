package archtest

import (
	"os/exec"
	"strings"
	"testing"
)

// TestAllowIsInlined asks the compiler, since one step more in Allow costs every call of its user two calls instead of one,
// and nothing else would show it (docs/adr/0030).
func TestAllowIsInlined(t *testing.T) {
	compile := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-m", "./breaker")
	compile.Dir = "../.."
	said, err := compile.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for _, method := range []string{"(*Breaker).Allow", "(*Breaker).near", "(*cell).count", "isPlain"} {
		if !strings.Contains(string(said), "can inline "+method+"\n") {
			t.Errorf("%s is inlined no longer", method)
		}
	}
}
