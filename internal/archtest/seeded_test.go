package archtest

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	behavioursSeed = "docs/behaviours-seeded.md"
	finderSeed     = "// Package fleet starts.\npackage fleet\n\nconst minMajor = 13\n\nvar p = places{globs: []string{\n\t\t\"/a/*/bin\", // x\n\t\t\"/b\",\n\t}}\n"
)

// goodTree breaks no rule that is judged by itself.
func goodTree() map[string]string {
	return map[string]string{
		"go.mod":               "module " + modulePath + "\n\ngo 1.26\n",
		"go.work":              "go 1.26\n\nuse (\n\t.\n\t./low\n)\n",
		"low/go.mod":           "module " + modulePath + "/low\n\nreplace " + modulePath + " => ..\n",
		"low/low.go":           "// Package low is below.\n//\n// # Concurrency\n//\n// None.\npackage low\n",
		"high/high.go":         "// Package high is above.\npackage high\n\nimport \"" + modulePath + "/low\"\n",
		"high/bubble_test.go":  "package high\n\nfunc bubble() { synctest.Test(nil, nil) }\n",
		"high/high_test.go":    "package high\n\nfunc TestX() { bubble(); time.Sleep(1) }\n",
		"docs/requirements.md": "| REQ-B5 | probes |\n",
		behavioursSeed:         "# B\n\n### 1. One\n[TestX](../high/high_test.go)\n\n### 45b. Two\n[TestX](../high/high_test.go)\n",
		"low/cites.go":         "package low\n\n// behaviours-seeded 1, 45b; REQ-B5: and behaviours-seeded 1 and\n// 45b, S3.\n",
		"docs/adr/README.md":   "[one](0001-one.md)\n",
		"docs/adr/0001-one.md": "# 0001: One\n\nREQ-B5, [list](../requirements.md), [web](https://example.org)\n",
		"README.md":            "```go\nfunc f() {}\n```\n",
		readmeExample:          "package pgxread\n\n// README: begin\nfunc f() {}\n\n// README: end\n",
		finder:                 finderSeed,
		installer:              "readonly oldest=13\nreadonly places=(\n  \"/a/*/bin\"\n  \"/b\"\n)\n",
		"pgxread/pgxread.go":   "// Package pgxread reads.\npackage pgxread\n",
	}
}

func treeOf(texts map[string]string) fs.FS {
	tree := fstest.MapFS{}
	for name, text := range texts {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return tree
}

// The rows and lists that belong to the made-up trees.
func seededRules() map[string]func(fs.FS) []string {
	rows := map[string][]string{"low": {}, "high": {"low"}, "pgxread/...": {anything}, "internal/fleet": {}}
	byName := map[string]func(fs.FS) []string{}
	for _, r := range rules {
		byName[r.name] = r.check
	}
	byName["arrows"] = func(tree fs.FS) []string { return faultsOfArrows(tree, rows) }
	byName["package docs"] = func(tree fs.FS) []string { return faultsOfPackageDocs(tree, []string{"low"}) }
	byName["no sleeping tests"] = func(tree fs.FS) []string { return faultsOfSleepers(tree, nil) }
	return byName
}

func TestRulesPassAGoodTree(t *testing.T) {
	tree := treeOf(goodTree())
	for name, check := range seededRules() {
		if faults := check(tree); len(faults) > 0 {
			t.Errorf("%s: got %q, want no fault", name, faults)
		}
	}
}

// Each rule is shown to fail: a good tree with one file replaced has this fault.
func TestRulesCatchWhatTheyForbid(t *testing.T) {
	const head = "// Package low is below.\npackage low\n\n"
	tests := []struct {
		rule, file, text, want string
	}{
		{"arrows", "low/up.go", "package low\n\nimport \"" + modulePath + "/high\"\n", "low/up.go: imports high"},
		{"arrows", "new/new.go", "package new\n", "package new has no row"},
		{"core requires nothing", "go.mod", "module x\n\nrequire github.com/x/y v1.0.0\n", "standard library only"},
		{"core requires nothing", "go.mod", "module x\n\nrequire (\n\tgithub.com/x/y v1.0.0\n)\n", "standard library only"},
		{"nested modules", "low/go.mod", "module low\n", "lacks \"replace " + modulePath + " => ..\""},
		{"nested modules", "low/deep/go.mod", "module deep\n\nreplace " + modulePath + " => ../..\n", "does not use ./low/deep"},
		{"nested modules", "go.work", "use (\n./low\n./tools\n)\n", "uses ./tools"},
		{"no testing in production", "low/kit.go", head + "import \"testing\"\n", "low/kit.go: imports testing"},
		{"no testing in production", "low/kit.go", head + "import \"testing/fstest\"\n", "imports testing/fstest"},
		{"package docs", "high/high.go", "package high\n", "high: no package doc"},
		{"package docs", "low/low.go", head, "lacks a \"# Concurrency\" section"},
		{"file size", "low/long.go", "package low\n" + strings.Repeat("var _ = 1 // a\n\n// b\n", maxCodeLines), "501 lines of code"},
		{"file size", "low/long.go", "package low\n\nvar _ = `" + strings.Repeat("x\n", maxCodeLines) + "`\n", "502 lines of code"},
		{"no sleeping tests", "low/x_test.go", "package low\n\nfunc TestX() {\n\ttime.Sleep(1)\n}\n", "low/x_test.go:4: time.Sleep"},
		{"no sleeping tests", "low/x_test.go", "package low\n\nfunc TestX() { bubble(); time.Sleep(1) }\n", "low/x_test.go:3: time.Sleep"},
		{"atomic words", "low/x.go", head + "type t struct{ word atomic.Int64 }\n", "the atomic field word"},
		{"atomic words", "low/x.go", head + "type t struct{ mu struct{ word atomic.Pointer[int] } }\n", "the atomic field word"},
		{"requirement citations", "low/x.go", "// REQ-B55\n", "low/x.go:1: cites REQ-B55"},
		{"requirement citations", "docs/requirements.md", "none\n", "no row"},
		{"behaviour citations", "low/x.go", "// behaviours-seeded 2\n", "low/x.go:1: cites behaviours-seeded 2"},
		{"behaviour citations", "low/x.go", "//\n// behaviours-seeded 1, 3; REQ-B5\n", "low/x.go:2: cites behaviours-seeded 3"},
		{"behaviour citations", "low/x.go", "// behaviours-seeded 1, 45b and\n// 4, REQ-B5\n", "cites behaviours-seeded 4"},
		{"behaviour citations", "low/x.go", "// behaviours-seeded 45c\n", "cites behaviours-seeded 45c"},
		{"behaviour citations", "low/x.go", "// behaviours-other 1\n", "in docs/behaviours-other.md"},
		{"behaviour citations", behavioursSeed, "### 1. One\n", "low/cites.go:3: cites behaviours-seeded 45b"},
		{"behaviour tests", behavioursSeed, "### 1. One\n[TestGone](../high/high_test.go)\n", "names TestGone"},
		{"behaviour tests", behavioursSeed, "### 1. One\n\n### 2. Two\n[TestX](../high/high_test.go)\n", "entry 1 names no test"},
		{"forbidden words", "low/x.go", "// see /wo" + "rk/x\n", "names a place"},
		{"forbidden words", "Makefile", "GOPROXY=https://proxy.gol" + "ang.org\n", "names a place"},
		{"links", "docs/x.md", "[gone](gone.md#part)\n", "docs/x.md: links to gone.md#part"},
		{"decision records", "docs/adr/0003-three.md", "x", "number 0003 where 0002 comes next"},
		{"decision records", "docs/adr/0001-uno.md", "x", "number 0001 where 0002 comes next"},
		{"decision records", "docs/adr/0002-two.md", "x", "does not link 0002-two.md"},
		{"decision records", "docs/adr/0001-one.md", "# 1. One\n", "does not begin with \"# 0001: \""},
		{"decision records", "docs/adr/notes.md", "x", "the name of a decision record"},
		{"server places", installer, "readonly oldest=13\nreadonly places=(\n  \"/a/*/bin\"\n)\n", "looks for the server in"},
		{"server places", installer, "readonly oldest=14\nreadonly places=(\n  \"/a/*/bin\"\n  \"/b\"\n)\n", "takes PostgreSQL \"14\""},
		{"server places", finder, "package fleet\n", "no list of places found"},
		{"server places", "docs/x.md", "PostgreSQL 10 or later\n", "docs/x.md: says PostgreSQL 10"},
		{"readme", readmeExample, "// README: begin\nfunc g() {}\n// README: end\n", "differs from"},
		{"readme", readmeExample, "func f() {}\n", "no example between the marks"},
		{"readme", "README.md", "no example\n", "no Go example"},
		{"shown code", degradedPage, "```go\nfunc f() {}\n\nfunc g() {}\n```\n", "\"func g() {}\" does not stand so"},
		{"readme", "README.md", strings.Repeat("\n", maxReadmeLines-3) + "```go\nfunc f() {}\n```\n", "200 lines"},
	}
	for _, test := range tests {
		t.Run(test.rule+"/"+test.file, func(t *testing.T) {
			texts := goodTree()
			texts[test.file] = test.text
			faults := seededRules()[test.rule](treeOf(texts))
			if len(faults) == 0 || !strings.Contains(strings.Join(faults, "\n"), test.want) {
				t.Errorf("got %q, want a fault with %q", faults, test.want)
			}
		})
	}
}

// What a list names must exist, or the list would go on excusing what comes under that name later.
func TestListsCannotRot(t *testing.T) {
	tree := treeOf(goodTree())
	gone := map[string][]string{
		"a row":            faultsOfArrows(tree, map[string][]string{"low": {}, "high": {"low"}, "pgxread/...": {anything}, "internal/fleet": {}, "gone": {}}),
		"a row's target":   faultsOfArrows(tree, map[string][]string{"low": {"gone"}, "high": {"low"}, "pgxread/...": {anything}, "internal/fleet": {}}),
		"a public one":     faultsOfPackageDocs(tree, []string{"gone"}),
		"a sleeper":        faultsOfSleepers(tree, map[string]string{"gone_test.go": "reason"}),
		"a waking sleeper": faultsOfSleepers(tree, map[string]string{"high/bubble_test.go": "reason"}),
	}
	for what, faults := range gone {
		if len(faults) != 1 || !strings.Contains(faults[0], "remove it") {
			t.Errorf("%s: got %q, want one fault that says to remove it", what, faults)
		}
	}
}
