package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// deployed is a file below deploy/.
func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The unit is one that systemd takes without a word.
func TestUnit(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("NOT RUN: systemd-analyze is missing, as on every machine without systemd")
	}
	const installed = "/usr/local/bin/breakwater"
	unit := deployed(t, "systemd/breakwater.service")
	if !strings.Contains(unit, "ExecStart="+installed+" serve ") {
		t.Fatalf("the unit does not start %s", installed)
	}
	file := filepath.Join(t.TempDir(), "breakwater.service")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(unit, installed, binary)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := exec.CommandContext(t.Context(), analyze, "verify", file).CombinedOutput(); err != nil || len(got) > 0 {
		t.Errorf("systemd-analyze verify: got %v:\n%s\nwant nothing", err, got)
	}
}

// Each configuration that is shown to whoever installs the daemon is one that serve takes.
func TestConfigurationsAreFine(t *testing.T) {
	for _, name := range []string{"PRIMARY_DSN", "R1_DSN", "R2_DSN"} {
		t.Setenv(name, "postgres://app:hunter2@127.0.0.1/app")
	}
	t.Setenv("BREAKWATER_TOKEN", strings.Repeat("t", 64))
	t.Setenv("OTLP_HEADERS", "authorization=Bearer%20hunter2")
	for name, text := range map[string]string{
		"compose":    deployed(t, "compose/breakwater.yaml"),
		"kubernetes": configMap(t, deployed(t, "kubernetes/breakwater.yaml")),
		"serve.md":   indented(t, "../../docs/serve.md", "    $ cat breakwater.yaml\n"),
		"tracing.md": fenced(t, "../../docs/tracing.md", "```yaml\n"),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "breakwater.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, errOut strings.Builder
			if got := run([]string{"check", file}, &out, &errOut); got != exitHeld {
				t.Errorf("check: got exit status %d, want 0:\n%s", got, errOut.String())
			}
		})
	}
}

// configMap is the configuration in the first document of a manifest.
func configMap(t *testing.T, manifest string) string {
	t.Helper()
	var first struct {
		Data map[string]string `yaml:"data"`
	}
	if err := yaml.NewDecoder(strings.NewReader(manifest)).Decode(&first); err != nil {
		t.Fatal(err)
	}
	return first.Data["breakwater.yaml"]
}

// after is what stands in a page behind a mark.
func after(t *testing.T, page, mark string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("%s: there is no %q", page, mark)
	}
	return rest
}

func fenced(t *testing.T, page, mark string) string {
	t.Helper()
	block, _, _ := strings.Cut(after(t, page, mark), "```")
	return block
}

// indented is a block of a transcript, up to the next command.
func indented(t *testing.T, page, mark string) string {
	t.Helper()
	block, _, _ := strings.Cut(after(t, page, mark), "    $ ")
	return strings.ReplaceAll("\n"+block, "\n    ", "\n")
}
