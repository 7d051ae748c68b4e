package archtest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

const requirementsPage = "docs/requirements.md"

var (
	requirementRow = regexp.MustCompile(`(?m)^\| (REQ-[A-Z]\d+) \|`)
	citation       = regexp.MustCompile(`\bREQ-[A-Z]+\d+\b`)
	markdownLink   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	webLink        = regexp.MustCompile(`^(https?:|mailto:|#)`)
	marked         = regexp.MustCompile(`(?s)// README: begin\n(.*?)// README: end`)
	snippet        = regexp.MustCompile("(?s)```go\n(.*?)```")
)

// checkRequirementCitations: whoever follows a citation finds the requirement.
func checkRequirementCitations(tree fs.FS) []string {
	var known []string
	for _, row := range requirementRow.FindAllStringSubmatch(read(tree, requirementsPage), -1) {
		known = append(known, row[1])
	}
	if len(known) == 0 {
		return []string{requirementsPage + ": no row with a requirement's ID found"}
	}
	var faults []string
	for _, name := range files(tree, isText) {
		if path.Dir(name) == "internal/archtest" && isTest(name) {
			continue // the made-up trees cite what does not exist
		}
		for i, line := range strings.Split(read(tree, name), "\n") {
			for _, id := range citation.FindAllString(line, -1) {
				if !slices.Contains(known, id) {
					faults = append(faults, fmt.Sprintf("%s:%d: cites %s, which is not in %s", name, i+1, id, requirementsPage))
				}
			}
		}
	}
	return faults
}

// forbiddenWords name places that exist on one machine only. They are written in two halves, so
// that this file does not hold them.
var forbiddenWords = regexp.MustCompile(`(^|[\s"'(=` + "`" + `])/wo` + `rk/|\bshared/(sp` + `ec|st` + `yle)\b|\b(proxy|sum)\.gol` + `ang\.org|registry\.npm` + `js\.org|deb\.deb` + `ian\.org`)

func checkForbiddenWords(tree fs.FS) []string {
	var faults []string
	for _, name := range files(tree, isText) {
		for i, line := range strings.Split(read(tree, name), "\n") {
			if word := forbiddenWords.FindString(line); word != "" {
				faults = append(faults, fmt.Sprintf("%s:%d: %q names a place that other machines do not have", name, i+1, word))
			}
		}
	}
	return faults
}

// checkLinks: a link from one page to another file of the repository leads somewhere.
func checkLinks(tree fs.FS) []string {
	var faults []string
	for _, name := range files(tree, func(name string) bool { return path.Ext(name) == ".md" }) {
		for _, match := range markdownLink.FindAllStringSubmatch(read(tree, name), -1) {
			target, _, _ := strings.Cut(match[1], "#")
			if webLink.MatchString(match[1]) || target == "" {
				continue
			}
			if _, err := fs.Stat(tree, path.Join(path.Dir(name), target)); err != nil {
				faults = append(faults, fmt.Sprintf("%s: links to %s, which does not exist", name, match[1]))
			}
		}
	}
	return faults
}

const (
	readmeExample  = "pgxread/readme_test.go"
	maxReadmeLines = 200
)

// checkReadme: the README is short, and its first Go example is compiled and run as a test.
func checkReadme(tree fs.FS) []string {
	var faults []string
	readme := read(tree, "README.md")
	if n := strings.Count(readme, "\n"); n >= maxReadmeLines {
		faults = append(faults, fmt.Sprintf("README.md: %d lines, want under %d: move detail to docs/", n, maxReadmeLines))
	}
	shown, run := snippet.FindStringSubmatch(readme), marked.FindStringSubmatch(read(tree, readmeExample))
	switch {
	case shown == nil:
		faults = append(faults, "README.md: no Go example")
	case run == nil:
		faults = append(faults, readmeExample+": no example between the marks // README: begin and // README: end")
	case strings.TrimSpace(shown[1]) != strings.TrimSpace(run[1]):
		faults = append(faults, "README.md: its Go example differs from what stands marked in "+readmeExample+": make them equal")
	}
	return faults
}

const degradedPage = "docs/degraded.md"

// shownCode are the pages whose Go code stands in files of those directories, where it is compiled and tested.
var shownCode = map[string][]string{
	degradedPage:      {"dev/examples/threeclasses"},
	"docs/tracing.md": {"contrib/otel", "contrib/otelpgx"},
}

// checkShownCode: what a page shows is code that is tested.
func checkShownCode(tree fs.FS) []string {
	var faults []string
	for page, dirs := range shownCode {
		var code strings.Builder
		for _, name := range files(tree, func(name string) bool { return slices.Contains(dirs, path.Dir(name)) }) {
			code.WriteString(read(tree, name))
		}
		for _, shown := range snippet.FindAllStringSubmatch(read(tree, page), -1) {
			faults = append(faults, notIn(code.String(), shown[1], page, dirs)...)
		}
	}
	return faults
}

// notIn are the paragraphs of what a page shows that do not stand so in the code.
func notIn(code, shown, page string, dirs []string) (faults []string) {
	for part := range strings.SplitSeq(strings.TrimRight(shown, "\n"), "\n\n") {
		if !strings.Contains(code, part+"\n") {
			line, _, _ := strings.Cut(strings.TrimSpace(part), "\n")
			faults = append(faults, fmt.Sprintf("%s: what begins with %q does not stand so in %v: make them equal", page, line, dirs))
		}
	}
	return faults
}
