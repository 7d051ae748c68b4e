package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const deploy = "../../deploy"

// systemd knows every line of the unit. Its programs need not be installed here.
func TestSystemdUnit(t *testing.T) {
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Fatal("systemd-analyze is missing: tools/install.sh systemd-analyze installs it, or says how")
	}
	text, err := os.ReadFile(filepath.Join(deploy, "systemd", "breakwater.service"))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "breakwater.service")
	text = bytes.ReplaceAll(text, []byte("/usr/local/bin/breakwater"), []byte(self))
	if err := os.WriteFile(unit, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "verify", "--man=no", unit).CombinedOutput()
	if err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// The configurations that deploy/ shows are fine, and their YAML is YAML.
func TestDeployedConfigurations(t *testing.T) {
	for name, value := range map[string]string{
		"BREAKWATER_TOKEN": strings.Repeat("t", 32), "PRIMARY_DSN": "host=primary", "R1_DSN": "host=r1", "R2_DSN": "host=r2",
	} {
		t.Setenv(name, value)
	}
	seen := 0
	for _, doc := range documents(t, filepath.Join(deploy, "kubernetes", "breakwater.yaml")) {
		data, _ := doc["data"].(map[string]any)
		if text, ok := data["breakwater.yaml"].(string); ok {
			seen++
			checks(t, configFile(t, text))
		}
	}
	if seen != 1 {
		t.Errorf("got %d configurations in the Kubernetes manifests, want 1", seen)
	}
	checks(t, filepath.Join(deploy, "compose", "breakwater.yaml"))
	for _, name := range []string{"compose.yaml", "prometheus.yaml"} {
		if len(documents(t, filepath.Join(deploy, "compose", name))) != 1 {
			t.Errorf("%s is not one document", name)
		}
	}
}

func checks(t *testing.T, file string) {
	t.Helper()
	var out, errOut bytes.Buffer
	if status := run([]string{"check", file}, &out, &errOut); status != exitHeld {
		t.Errorf("check %s: status %d\n%s", file, status, &errOut)
	}
}

func documents(t *testing.T, file string) (all []map[string]any) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := yaml.NewDecoder(f); ; {
		var doc map[string]any
		if err := d.Decode(&doc); err != nil {
			if err.Error() != "EOF" {
				t.Errorf("%s: %v", file, err)
			}
			return all
		}
		all = append(all, doc)
	}
}

// The configurations that the pages show are fine too.
func TestShownConfigurations(t *testing.T) {
	for _, name := range []string{"PRIMARY_DSN", "R1_DSN", "R2_DSN"} {
		t.Setenv(name, "host=db")
	}
	t.Setenv("OTLP_HEADERS", "authorization=Bearer%20token")
	transcript := between(t, "serve.md", "    $ cat breakwater.yaml\n", "    $ ")
	checks(t, configFile(t, strings.ReplaceAll("\n"+transcript, "\n    ", "\n")))
	checks(t, configFile(t, between(t, "tracing.md", "```yaml\n", "```")))
}

// between is what stands in a page between two marks.
func between(t *testing.T, page, begin, end string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begun := strings.Cut(string(text), begin)
	found, _, ended := strings.Cut(rest, end)
	if !begun || !ended {
		t.Fatalf("%s: there is nothing between %q and %q", page, begin, end)
	}
	return found
}
