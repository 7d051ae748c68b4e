package web_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// TestWords: the page has words for what the packages tell, all of it and nothing else; what it has none for it would show as it is
// written in code (REQ-O3).
func TestWords(t *testing.T) {
	const js, root = "static/js/", "../../../../"
	states := values[breaker.State]()
	decides := without(states, "half_open") // of those that are being tried it says more than a word
	reasons := constants(t, root+"emit/deadletters.go", `\sReason\w+ +Reason += "(\w+)"`)
	rules := append(constants(t, root+"breaker/reason.go", `\sRule\w+ += "(\w+)"`), constants(t, root+"emit/*.go", `Rule: "(\w+)"`)...)
	faults := constants(t, "../playground/kinds.go", `(?:name: |link\(f, |becomes\()"(\w+)"`)
	kinds := constants(t, "../api/event.go", `\sKind\w+ += "(\w+)"`)
	durabilities := constants(t, "../api/standard.go", `return "(\w+)"`)
	runs := constants(t, "../playground/runs.go", `(?m)^\t\w+ += "(\w+)"$`)
	amounts := constants(t, "../playground/kinds.go", `"(\w+)".*(?:usual: [1-9]|, slowP99\*)`)
	for _, tc := range []struct {
		what string
		got  []string
		want []string
	}{
		{"states", keys(t, js+"words.js", "stateWord = {"), states},
		{"states, of replicas", keys(t, js+"words.js", "doesReplica = {"), decides},
		{"states, of consumers", keys(t, js+"words.js", "doesConsumer = {"), decides},
		{"shapes of states", keys(t, js+"icons.js", "levers = {"), states},
		{"conditions", keys(t, js+"words.js", "conditionWord = {"), values[replica.Condition]()},
		{"reasons of letters", keys(t, js+"words.js", "letterReason = {"), reasons},
		{"durabilities", keys(t, js+"letters.js", "durability = (word) => ({"), durabilities},
		{"rules", keys(t, js+"words.js", "ruleWord = {"), rules},
		{"modes", keys(t, js+"cards.js", "like = {"), values[readpath.Mode]()},
		{"sources of reads", keys(t, js+"chartdefs.js", "sourceColors = {"), append(without(values[readpath.Source](), "none"), "shed", "failed")},
		{"faults", keys(t, js+"words.js", "faultWord = {"), faults},
		{"faults, what they mean", keys(t, js+"words.js", "faultMeans = {"), faults},
		{"faults with an amount", constants(t, js+"lab.js", `withAmount = new Set\(\[(.*)\]\)`), amounts},
		{"kinds of events", constants(t, js+"events.js", `case '(\w+)'`), append(kinds, "gap")},
		{"states of a scenario", keys(t, js+"scenarios.js", "stateWords = {"), runs},
	} {
		slices.Sort(tc.got)
		slices.Sort(tc.want)
		if len(tc.want) == 0 || !slices.Equal(tc.got, tc.want) {
			t.Errorf("%s: the page has words for %q, want %q", tc.what, tc.got, tc.want)
		}
	}
}

// values are the names of an enumeration, from 0 to where they begin to repeat or are none.
func values[T interface {
	~uint8
	fmt.Stringer
}]() (all []string) {
	for v := T(0); ; v++ {
		name := v.String()
		if slices.Contains(all, name) || name == "invalid" || strings.Contains(name, "(") {
			return all
		}
		all = append(all, name)
	}
}

func without(all []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == one })
}

// constants are the words that a pattern finds in files but tests, each once.
func constants(t *testing.T, files, pattern string) (found []string) {
	t.Helper()
	names, err := filepath.Glob(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, name), -1) {
			for word := range strings.SplitSeq(m[1], ", ") {
				if word = strings.Trim(word, "'"); !slices.Contains(found, word) {
					found = append(found, word)
				}
			}
		}
	}
	return found
}

// keys are those of the object that begins so in a file of the page.
func keys(t *testing.T, name, begin string) (found []string) {
	t.Helper()
	_, text, ok := strings.Cut(read(t, name), begin)
	if !ok {
		t.Fatalf("%s has no %q", name, begin)
	}
	word := ""
	for i, depth := 0, 1; depth > 0 && i < len(text); i++ {
		switch c := text[i]; {
		case c == '\'':
			i += 1 + strings.IndexByte(text[i+1:], '\'')
		case strings.IndexByte("({[", c) >= 0:
			depth++
		case strings.IndexByte(")}]", c) >= 0:
			depth--
		case c == ':' && depth == 1:
			found = append(found, word)
		case c == '_' || c >= 'a' && c <= 'z':
			word += string(c)
			continue
		}
		word = ""
	}
	return found
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
