package archtest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// toolsModule is outside the workspace and imports nothing of ours (docs/adr/0003).
const toolsModule = "tools"

var forbiddenInCoreMod = regexp.MustCompile(`(?m)^\s*(require|replace|tool)\b.*$`)

// checkCoreRequiresNothing keeps the promise that the core costs its user no dependency.
func checkCoreRequiresNothing(tree fs.FS) []string {
	var faults []string
	for _, line := range forbiddenInCoreMod.FindAllString(read(tree, "go.mod"), -1) {
		faults = append(faults, fmt.Sprintf("go.mod: %q: the core is standard library only; what needs a dependency is a module of its own (docs/adr/0001)", strings.TrimSpace(line)))
	}
	return faults
}

// checkNestedModules: until the first tag each module takes the core from this checkout, and the
// workspace lists each of them.
func checkNestedModules(tree fs.FS) []string {
	var faults []string
	work := read(tree, "go.work")
	for _, name := range files(tree, func(name string) bool { return path.Base(name) == "go.mod" && name != "go.mod" }) {
		dir := path.Dir(name)
		if dir == toolsModule {
			continue
		}
		up := strings.TrimSuffix(strings.Repeat("../", strings.Count(dir, "/")+1), "/")
		if want := modulePath + " => " + up; !hasLine(read(tree, name), want) && !hasLine(read(tree, name), "replace "+want) {
			faults = append(faults, fmt.Sprintf("%s: lacks \"replace %s\": without it the module cannot be built outside the workspace", name, want))
		}
		if !hasLine(work, "./"+dir) {
			faults = append(faults, "go.work: does not use ./"+dir)
		}
	}
	if hasLine(work, "./"+toolsModule) {
		faults = append(faults, "go.work: uses ./tools, whose requirements would then choose the versions of all others (docs/adr/0003)")
	}
	return faults
}

func hasLine(text, want string) bool {
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == want {
			return true
		}
	}
	return false
}

var recordName = regexp.MustCompile(`^docs/adr/(\d{4})-[a-z0-9-]+\.md$`)

// checkDecisionRecords: numbered from 0001 without a gap, titled so, each of them in the index.
func checkDecisionRecords(tree fs.FS) []string {
	var faults []string
	index := read(tree, "docs/adr/README.md")
	next := 1
	for _, name := range files(tree, func(name string) bool { return path.Dir(name) == "docs/adr" && path.Base(name) != "README.md" }) {
		match := recordName.FindStringSubmatch(name)
		if match == nil {
			faults = append(faults, name+": the name of a decision record is NNNN-words-of-it.md")
			continue
		}
		number, _ := strconv.Atoi(match[1]) // four digits
		if number != next {
			faults = append(faults, fmt.Sprintf("%s: number %04d where %04d comes next: numbers have no gap and no double", name, number, next))
		}
		next = number + 1
		if title := "# " + match[1] + ": "; !strings.HasPrefix(read(tree, name), title) {
			faults = append(faults, fmt.Sprintf("%s: does not begin with %q and its title", name, title))
		}
		if !strings.Contains(index, "("+path.Base(name)+")") {
			faults = append(faults, "docs/adr/README.md: does not link "+path.Base(name))
		}
	}
	return faults
}
