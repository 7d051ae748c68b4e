package assets

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// promtool runs it in a directory, and returns what it says.
func promtool(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is missing: tools/install.sh promtool installs it, or says how")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, tool, args...)
	c.Dir = dir
	out := &bytes.Buffer{}
	c.Stdout, c.Stderr = out, out
	err = c.Run()
	return out.String(), err
}

type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(Alerts()), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no rules")
	}
	return all
}

// TestAlerts: promtool runs the tests of the rules, and each rule has one in which it fires and one in which it is quiet (REQ-O2):
// among them a breaker that flaps (REQ-O9) and any time degraded, apart from one replica's trip (REQ-D11).
func TestAlerts(t *testing.T) {
	t.Parallel()
	if out, err := promtool(t, "testdata", "test", "rules", "alerts_test.yml"); err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, out)
	}
	text, err := os.ReadFile("testdata/alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []struct {
			Rules []struct {
				Alert string      `yaml:"alertname"`
				Want  []yaml.Node `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, r := range test.Rules {
			fires[r.Alert] = fires[r.Alert] || len(r.Want) > 0
			quiet[r.Alert] = quiet[r.Alert] || len(r.Want) == 0
		}
	}
	for _, r := range rules(t) {
		if !fires[r.Alert] || !quiet[r.Alert] {
			t.Errorf("%s: a test in which it fires: %v, in which it is quiet: %v; want both in testdata/alerts_test.yml", r.Alert, fires[r.Alert], quiet[r.Alert])
		}
	}
}

// TestAlertsSayEnough: whoever is woken knows how bad it is, what was measured and where to read on (REQ-O6).
func TestAlertsSayEnough(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	sections, seen := anchors(string(page)), map[string]bool{}
	for _, r := range rules(t) {
		severity := r.Labels["severity"]
		switch {
		case severity != "warning" && severity != "critical":
			t.Errorf("%s: severity is %q, want warning or critical", r.Alert, severity)
		case r.For == "":
			t.Errorf("%s: for is missing", r.Alert)
		case r.Annotations["summary"] == "":
			t.Errorf("%s: summary is missing", r.Alert)
		case !strings.Contains(r.Annotations["description"], "$value"):
			t.Errorf("%s: the description lacks the value", r.Alert)
		}
		file, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "#")
		if file != "https://github.com/breakwater-go/breakwater/blob/main/docs/runbook.md" || !sections[anchor] || seen[anchor] {
			t.Errorf("%s: runbook_url is %q, want a section of its own in docs/runbook.md", r.Alert, r.Annotations["runbook_url"])
		}
		if _, section, _ := strings.Cut(string(page), "`"+r.Alert+"`: "); section == "" {
			t.Errorf("%s: no section of docs/runbook.md begins with its name, want one: a pager shows the name", r.Alert)
		}
		seen[anchor] = true
	}
}

// anchors are those of the headings of a page.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(page) {
		if _, title, ok := strings.Cut(line, "# "); ok && strings.HasPrefix(line, "#") {
			all[strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-")] = true
		}
	}
	return all
}

type panel struct {
	Title       string
	Type        string
	Description string
	Targets     []struct{ Expr string }
	Panels      []panel
}

// panels are those of the dashboard, rows too.
func panels(t *testing.T) []panel {
	t.Helper()
	var d struct{ Panels []panel }
	if err := json.Unmarshal([]byte(Dashboard()), &d); err != nil {
		t.Fatal(err)
	}
	var all []panel
	for _, p := range d.Panels {
		all = append(append(all, p), p.Panels...)
	}
	return all
}

// TestDashboard: it has its rows, and Prometheus parses each of its expressions.
func TestDashboard(t *testing.T) {
	t.Parallel()
	var titles, exprs []string
	for _, p := range panels(t) {
		if p.Type == "row" {
			titles = append(titles, p.Title)
			continue
		}
		if len(p.Targets) == 0 || p.Description == "" {
			t.Errorf("panel %q: it lacks an expression or a description", p.Title)
		}
		for _, target := range p.Targets {
			exprs = append(exprs, target.Expr)
		}
	}
	if got, want := strings.Join(titles, ", "), "At a glance, Replicas, Read path, Consumers, Dead letters, The daemon"; got != want {
		t.Errorf("rows: got %s, want %s", got, want)
	}
	parses(t, exprs)
}

// TestMetricsPage: docs/metrics.md tells of each metric that there is, and its expressions parse and use what there is.
func TestMetricsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	s := exported(t)
	for name, labels := range s {
		if name == "up" || strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") || strings.HasSuffix(name, "_bucket") {
			continue
		}
		shown := name
		if len(labels) > 0 {
			shown += "{" + strings.Join(labels, ",") + "}"
		}
		if !strings.Contains(string(page), "`"+shown+"`") {
			t.Errorf("docs/metrics.md does not tell of %s", shown)
		}
	}
	var exprs []string
	for line := range strings.Lines(string(page)) {
		if expr, ok := strings.CutPrefix(line, "    "); ok && !strings.HasPrefix(expr, "breakwater assets") {
			exprs = append(exprs, expr)
			for _, fault := range s.faults(expr) {
				t.Errorf("docs/metrics.md: %s in %s", fault, expr)
			}
		}
	}
	parses(t, exprs)
}

// parses has promtool parse expressions.
func parses(t *testing.T, exprs []string) {
	t.Helper()
	type line struct{ Record, Expr string }
	var lines []line
	for _, expr := range exprs {
		lines = append(lines, line{"parsed", strings.ReplaceAll(expr, "$__rate_interval", "5m")})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "parsed", "rules": lines}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rules.yml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, dir, "check", "rules", "--lint=none", "rules.yml"); err != nil {
		t.Errorf("promtool check rules: %v\n%s", err, out)
	}
}
