package archtest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	finder    = "internal/fleet/find.go"
	installer = "tools/install-postgres.sh"
)

var (
	finderPlaces    = regexp.MustCompile(`(?s)globs: \[\]string\{(.*?)\n\t\}`)
	installerPlaces = regexp.MustCompile(`(?s)readonly places=\((.*?)\n\)`)
	quotedPath      = regexp.MustCompile(`"(/[^"]*)"`)
	finderOldest    = regexp.MustCompile(`(?m)^const minMajor = (\d+)`)
	installerOldest = regexp.MustCompile(`(?m)^readonly oldest=(\d+)`)
	oldestServer    = regexp.MustCompile(`\bPostgreSQL (\d+) (?:or|and) (?:newer|later)`)
)

// checkServerPlaces: what installs the server looks for it where the fleet does, and all name the
// same oldest version.
func checkServerPlaces(tree fs.FS) []string {
	var faults []string
	fleet, script := read(tree, finder), read(tree, installer)
	want, got := paths(finderPlaces, fleet), paths(installerPlaces, script)
	if len(want) == 0 {
		faults = append(faults, finder+": no list of places found: mend finderPlaces in server_test.go")
	}
	if !slices.Equal(got, want) {
		faults = append(faults, fmt.Sprintf("%s: looks for the server in %q, and %s in %q: make them equal", installer, got, finder, want))
	}
	oldest := group(finderOldest, fleet)
	if n := group(installerOldest, script); n != oldest {
		faults = append(faults, fmt.Sprintf("%s: takes PostgreSQL %q, and %s %q: make them equal", installer, n, finder, oldest))
	}
	for _, name := range files(tree, isText) {
		if path.Dir(name) == "internal/archtest" {
			continue // names made-up versions
		}
		if n := group(oldestServer, read(tree, name)); n != "" && n != oldest {
			faults = append(faults, fmt.Sprintf("%s: says PostgreSQL %s or newer, where %s says %s", name, n, finder, oldest))
		}
	}
	return faults
}

// paths are the quoted paths of the list that the pattern finds.
func paths(list *regexp.Regexp, text string) []string {
	var found []string
	for _, match := range quotedPath.FindAllStringSubmatch(group(list, text), -1) {
		found = append(found, match[1])
	}
	return found
}

// group is what the pattern's group holds where it first matches, "" if nowhere.
func group(pattern *regexp.Regexp, text string) string {
	if match := pattern.FindStringSubmatch(text); match != nil {
		return strings.TrimSpace(match[1])
	}
	return ""
}
