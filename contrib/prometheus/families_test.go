package prombreakwater

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

var update = flag.Bool("update", false, "rewrite testdata/families.golden")

// everything is a registry in which each family has a series.
func everything(t *testing.T) prometheus.Gatherer {
	t.Helper()
	var parts Parts
	p, registry := newTestCollector(t, Config{Parts: func() Parts { return parts }})
	backend, sick := &nodes{}, &target{}
	parts.Set = newTestSet(t, p.Replicas(replica.Observer{}), &server{name: "r1", replica: true})
	path := newTestPath(t, backend, p.Path("main", readpath.Observer{}))
	parts.Paths = map[string]*readpath.Router{"main": path}
	parts.Router = newTestRouter(t, p.Emits(emit.Observer{}), sick.consumer("mailer"), sick.consumer("former"))
	set, err := breaker.NewSet(breaker.SetConfig[string]{Config: breaker.Config{Observer: p.Keyed("tenant", breaker.Observer{})}})
	if err != nil {
		t.Fatal(err)
	}
	set.Get("customer-17")
	parts.Groups = []Group{Keys("tenant", set)}
	if err := parts.Set.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	parts.Set.Breaker("r1").Trip(breaker.Reason{Rule: "lag"})
	sick.failure.Store(new("not today"))
	if _, err := parts.Router.Emit(t.Context(), emit.Trigger{Type: "order.paid"}); err != nil {
		t.Fatal(err)
	}
	settings := parts.Router.Config()
	settings.Consumers = settings.Consumers[:1]
	if err := parts.Router.Reconfigure(settings); err != nil {
		t.Fatal(err)
	}
	for range 300 { // over the budget for a look at the rates
		_ = readOnce(t.Context(), path, "price")
	}
	time.Sleep(11 * time.Second)
	reload := NewReload()
	registry.MustRegister(reload)
	return registry
}

// TestFamilies pins names, types, labels and help, and the numbers of states (REQ-O1); those of each consumer (REQ-E9) and the moment of each
// sampler's newest sample (REQ-R5) among them.
func TestFamilies(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	synctest.Test(t, func(t *testing.T) {
		s := scrapeOf(t, everything(t))
		for _, f := range s.families {
			b.WriteString(familyLine(f))
		}
	})
	got := b.String() + numbers()
	const golden = "testdata/families.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
	p, _ := newTestCollector(t, Config{Parts: func() Parts { return Parts{} }})
	for _, f := range p.catalogue.all {
		if !strings.Contains("\n"+got, "\n"+f.name+" ") {
			t.Errorf("the scrape has no series of %s: everything does not make one", f.name)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the families are not those of %s; if that is meant: go test ./contrib/prometheus -update\ngot:\n%s\nwant:\n%s", golden, got, want)
	}
}

func familyLine(f *dto.MetricFamily) string {
	var labels []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		labels = append(labels, l.GetName())
	}
	return fmt.Sprintf("%s %s {%s}\n    %s\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ","), f.GetHelp())
}

func numbers() string {
	var b strings.Builder
	for name, n := range map[string]numbering{"circuit_breaker_state": generic(), "replica_breaker_state, breaker_state": published()} {
		for _, s := range states() {
			fmt.Fprintf(&b, "%s %s=%v\n", name, s, n.of(s))
		}
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	slices.Sort(lines)
	return "\n# numbers of states\n" + strings.Join(lines, "\n") + "\n"
}

// excepted are what promtool says of names that REQ-O1 fixes.
var excepted = []string{
	`open_duration_s metric names should not contain abbreviated units`,
}

// TestPromtool: nothing else to say (REQ-O1).
func TestPromtool(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is missing: tools/install.sh promtool installs it, or says how")
	}
	var text string
	synctest.Test(t, func(t *testing.T) { text = scrapeOf(t, everything(t)).text })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, tool, "check", "metrics")
	c.Stdin = strings.NewReader(text)
	out := &bytes.Buffer{}
	c.Stdout, c.Stderr = out, out
	_ = c.Run() // it ends with 3 where it has something to say
	got := strings.FieldsFunc(out.String(), func(r rune) bool { return r == '\n' })
	slices.Sort(got)
	if !slices.Equal(got, excepted) {
		t.Errorf("promtool check metrics says\n%s\nwant only what names that are fixed bring with them:\n%s", strings.Join(got, "\n"), strings.Join(excepted, "\n"))
	}
}

// TestNoPublished: one switch leaves out the names of published designs.
func TestNoPublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := newTestSet(t, replica.Observer{}, &server{name: "r1", replica: true})
		sick := &target{}
		parts := Parts{Set: set, Router: newTestRouter(t, emit.Observer{}, sick.consumer("mailer")), Paths: map[string]*readpath.Router{"main": newTestPath(t, &nodes{}, readpath.Observer{})}}
		_, registry := newTestCollector(t, Config{Parts: func() Parts { return parts }, NoPublished: true})
		for _, f := range scrapeOf(t, registry).families {
			if !strings.HasPrefix(f.GetName(), "breakwater_") {
				t.Errorf("%s is told, want only names that begin with breakwater_", f.GetName())
			}
		}
	})
}
