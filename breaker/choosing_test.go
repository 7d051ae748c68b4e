package breaker_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/breaker"
)

// REQ-O8: the guide tells of each rule when to choose it, and when to use no breaker.
func TestGuideNamesEveryRule(t *testing.T) {
	page, err := os.ReadFile("../docs/choosing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []breaker.Rule{
		breaker.ConsecutiveFailures{},
		breaker.FailureRateByCount{},
		breaker.FailureRateByTime{},
		breaker.SlowCallRate{},
		breaker.Percentile{},
		breaker.CUSUM{},
		breaker.Signal{},
	} {
		name := strings.TrimPrefix(fmt.Sprintf("%T", r), "breaker.")
		if !strings.Contains(string(page), "\n| `"+name+"`") {
			t.Errorf("docs/choosing.md has no row for %s", name)
		}
	}
	if !strings.Contains(string(page), "\n## When to use none\n") {
		t.Error("docs/choosing.md does not say when to use none")
	}
}
