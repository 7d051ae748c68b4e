package main

import (
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/assets"
)

// TestAssets: both files are printed as they are, and help says how to load them (REQ-O2).
func TestAssets(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"alerts": assets.Alerts(), "dashboard": assets.Dashboard()} {
		var out, errOut strings.Builder
		if got := run([]string{"assets", name}, &out, &errOut); got != exitHeld || out.String() != want || errOut.Len() > 0 {
			t.Errorf("assets %s: exit status %d, %d bytes, want 0 and %d; stderr: %s", name, got, out.Len(), len(want), errOut.String())
		}
		out.Reset()
		if got := run([]string{"assets", name, "--help"}, &out, &errOut); got != exitHeld || !strings.Contains(out.String(), "breakwater assets "+name+" >") {
			t.Errorf("assets %s --help: exit status %d, want 0 and a line that loads it:\n%s", name, got, out.String())
		}
	}
	var out, errOut strings.Builder
	if got := run([]string{"assets", "rules"}, &out, &errOut); got != exitUsage || out.Len() > 0 {
		t.Errorf("assets rules: exit status %d, output %q, want %d and none", got, out.String(), exitUsage)
	}
}
