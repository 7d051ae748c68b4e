package archtest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// gap is the space between two words, also where a comment goes on in its next line.
const gap = `(?:\s|//)+`

var (
	// behaviourCitation is a page with one number or a list of them: "1, 10, 11", "18 and 24". The list
	// ends where something else follows: "17; REQ-B8", "46, S13".
	behaviourCitation = regexp.MustCompile(`\b(behaviours-[a-z]+)` + gap + `(\d+[a-z]?\b(?:(?:,` + gap + `|,?` + gap + `and` + gap + `|[/–-])\d+[a-z]?\b)*)`)
	behaviourNumber   = regexp.MustCompile(`\d+[a-z]?`)
	behaviourEntry    = regexp.MustCompile(`(?m)^### (\d+[a-z]?)\. `)
	behaviourPage     = regexp.MustCompile(`^docs/behaviours-[a-z]+\.md$`)
	testLink          = regexp.MustCompile(`\[(Test\w+)\]\(([^)#]+_test\.go)\)`)
)

// checkBehaviourCitations: whoever follows a citation finds the entry.
func checkBehaviourCitations(tree fs.FS) []string {
	var faults []string
	for _, name := range files(tree, isText) {
		if path.Dir(name) == "internal/archtest" && isTest(name) {
			continue // the made-up trees cite what does not exist
		}
		text := read(tree, name)
		for _, at := range behaviourCitation.FindAllStringSubmatchIndex(text, -1) {
			page := "docs/" + text[at[2]:at[3]] + ".md"
			known := entriesOf(tree, page)
			for _, number := range behaviourNumber.FindAllString(text[at[4]:at[5]], -1) {
				if !known[number] {
					faults = append(faults, fmt.Sprintf("%s:%d: cites %s %s, which has no entry (### %s. …) in %s",
						name, 1+strings.Count(text[:at[0]], "\n"), text[at[2]:at[3]], number, number, page))
				}
			}
		}
	}
	return faults
}

func entriesOf(tree fs.FS, page string) map[string]bool {
	known := map[string]bool{}
	for _, entry := range behaviourEntry.FindAllStringSubmatch(read(tree, page), -1) {
		known[entry[1]] = true
	}
	return known
}

// checkBehaviourTests: each entry names a test, and the tests that a page names exist.
func checkBehaviourTests(tree fs.FS) []string {
	var faults []string
	for _, page := range files(tree, behaviourPage.MatchString) {
		text := read(tree, page)
		for _, link := range testLink.FindAllStringSubmatch(text, -1) {
			file := path.Join(path.Dir(page), link[2])
			if !strings.Contains(read(tree, file), "\nfunc "+link[1]+"(") {
				faults = append(faults, fmt.Sprintf("%s: names %s, which is not in %s", page, link[1], file))
			}
		}
		for section := range strings.SplitSeq("\n"+text, "\n##") {
			if entry := behaviourEntry.FindStringSubmatch("##" + section); entry != nil && !testLink.MatchString(section) {
				faults = append(faults, fmt.Sprintf("%s: entry %s names no test: link one, or move it to the list of what is not shown yet", page, entry[1]))
			}
		}
	}
	return faults
}
