package assets

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	prombreakwater "github.com/breakwater-go/breakwater/contrib/prometheus"
)

// A schema is the labels of each metric name.
type schema map[string][]string

var described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// exported is what a daemon shows: the metrics of a real collector, those of the process, and what Prometheus adds.
func exported(t *testing.T) schema {
	t.Helper()
	metrics, err := prombreakwater.New(prombreakwater.Config{Parts: func() prombreakwater.Parts { return prombreakwater.Parts{} }})
	if err != nil {
		t.Fatal(err)
	}
	s := schema{"up": nil}
	for _, c := range []prometheus.Collector{metrics, prombreakwater.NewReload()} {
		s.describe(t, c)
	}
	process := prometheus.NewPedanticRegistry()
	process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := process.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		s[f.GetName()] = nil
	}
	return s
}

func (s schema) describe(t *testing.T, c prometheus.Collector) {
	t.Helper()
	descs := make(chan *prometheus.Desc, 1000)
	c.Describe(descs)
	close(descs)
	for d := range descs {
		found := described.FindStringSubmatch(d.String())
		if found == nil {
			t.Fatalf("cannot read %s", d)
		}
		labels := strings.FieldsFunc(found[2], func(r rune) bool { return r == ',' })
		s[found[1]] = labels
		if strings.HasSuffix(found[1], "_duration_seconds") {
			s[found[1]+"_bucket"] = append(slices.Clone(labels), "le")
		}
	}
}

var (
	quoted    = regexp.MustCompile(`"[^"]*"`)
	durations = regexp.MustCompile(`\[[^\]]*\]`)
	matchers  = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}`)
	grouping  = regexp.MustCompile(`\b(by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	words     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(?`)
	operators = []string{"and", "or", "unless", "by", "on", "without", "ignoring", "offset", "bool"}
)

// used takes the metric names of an expression, each with the labels that are asked of it, and the labels of its
// groupings. It is a tokenizer of names and no parser: promtool checks the grammar.
func used(expr string) (metrics schema, groups []string) {
	metrics = schema{}
	expr = durations.ReplaceAllString(quoted.ReplaceAllString(expr, ""), "")
	for _, found := range matchers.FindAllStringSubmatch(expr, -1) {
		metrics[found[1]] = append(metrics[found[1]], names(found[2])...)
	}
	expr = matchers.ReplaceAllString(expr, "$1 ")
	for _, found := range grouping.FindAllStringSubmatch(expr, -1) {
		groups = append(groups, names(found[2])...)
	}
	for _, word := range words.FindAllString(grouping.ReplaceAllString(expr, " "), -1) {
		word = strings.TrimSpace(word)
		if _, known := metrics[word]; !known && !strings.HasSuffix(word, "(") && !slices.Contains(operators, word) {
			metrics[word] = nil
		}
	}
	return metrics, groups
}

// names are the label names of a list or of matchers.
func names(list string) []string {
	var all []string
	for part := range strings.SplitSeq(list, ",") {
		if name := strings.Trim(part, " \n\t=!~"); name != "" {
			all = append(all, name)
		}
	}
	return all
}

// faults says what an expression uses that is not there.
func (s schema) faults(expr string) []string {
	var faults []string
	metrics, groups := used(expr)
	all := []string{"job", "instance"}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		labels, ok := s[name]
		if !ok {
			faults = append(faults, "there is no metric "+name)
			continue
		}
		all = append(all, labels...)
		for _, label := range metrics[name] {
			if label != "job" && label != "instance" && !slices.Contains(labels, label) {
				faults = append(faults, name+" has no label "+label)
			}
		}
	}
	for _, label := range groups {
		if !slices.Contains(all, label) {
			faults = append(faults, "no metric of the expression has the label "+label)
		}
	}
	return faults
}

// TestNamesExist: each metric name and label of the dashboard and of the alerts is exported (REQ-O2).
func TestNamesExist(t *testing.T) {
	t.Parallel()
	s := exported(t)
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			for _, fault := range s.faults(target.Expr) {
				t.Errorf("panel %q: %s in %s", p.Title, fault, target.Expr)
			}
		}
	}
	for _, r := range rules(t) {
		for _, fault := range s.faults(r.Expr) {
			t.Errorf("alert %s: %s", r.Alert, fault)
		}
	}
}

// TestNamesOfThePage: so is what the page gives to copy, one expression a line.
func TestNamesOfThePage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../web/static/js/promql.js")
	if err != nil {
		t.Fatal(err)
	}
	s := exported(t)
	given := regexp.MustCompile("=> [`'](.*)[`'],").FindAllStringSubmatch(string(text), -1)
	for _, m := range given {
		for _, fault := range s.faults(regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllString(m[1], `""`)) {
			t.Errorf("%s: %s", fault, m[1])
		}
	}
	if lines := strings.Count(string(text), "=> `") + strings.Count(string(text), "=> '"); lines == 0 || len(given) != lines {
		t.Errorf("%d expressions of %d were read", len(given), lines)
	}
}

// TestFaultsAreSeen: the check above finds what is wrong.
func TestFaultsAreSeen(t *testing.T) {
	t.Parallel()
	s := exported(t)
	for expr, want := range map[string]string{
		`sum by (name) (breakwater_breaker_state{job=~"$job",state="open"})`: "",
		`rate(breakwater_breaker_state_total[5m]) > 0`:                       "there is no metric breakwater_breaker_state_total",
		`breakwater_breaker_state{replica="a"} == 1`:                         "breakwater_breaker_state has no label replica",
		`sum by (replica) (breakwater_breaker_state)`:                        "no metric of the expression has the label replica",
		`fallback_depth and on (consumer) breakwater_dead_letter`:            "there is no metric breakwater_dead_letter",
	} {
		if got := strings.Join(s.faults(expr), "; "); got != want {
			t.Errorf("%s: got %q, want %q", expr, got, want)
		}
	}
}

// TestEverythingIsShown: the dashboard leaves out no family of ours that a daemon has, but those that repeat others.
func TestEverythingIsShown(t *testing.T) {
	t.Parallel()
	shown := Dashboard() + Alerts()
	for name := range exported(t) {
		if strings.HasPrefix(name, "breakwater_") && !regexp.MustCompile(`\b`+name+`\b`).MatchString(shown) && !slices.Contains(excepted, name) {
			t.Errorf("%s is in no panel and no alert", name)
		}
	}
}

var excepted = []string{
	"breakwater_emitted_total",                        // the sum of breakwater_emit_total
	"breakwater_emit_duration_seconds",                // its buckets are shown
	"breakwater_breaker_call_duration_seconds_bucket", // it is no histogram
	"breakwater_breaker_set_breakers",                 // a program's own sets: the daemon has none
	"breakwater_breaker_set_evictions_total",
}
