package api

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The page of the interface shows each route with a line of curl.
func TestDocsShowEachRoute(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(page), "\n")
	routes := 0
	for _, name := range []string{"routes.go", "routelab.go"} {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`oute?\("(\w+) (/[^"]*)"|handle\("(\w+) (/[^"]*)"`).FindAllStringSubmatch(string(source), -1) {
			routes++
			if method, path := m[1]+m[3], m[2]+m[4]; !shows(lines, method, path) {
				t.Errorf("docs/http.md: no line of curl for %s %s", method, path)
			}
		}
	}
	if routes < 17 {
		t.Errorf("found %d routes, want 17 or more: mend the pattern", routes)
	}
}

// shows says that a line calls that route.
func shows(lines []string, method, path string) bool {
	path, _, _ = strings.Cut(path, "{")
	call := regexp.MustCompile(regexp.QuoteMeta("$B"+path) + `(\s|\?|"|$|\w+ )`)
	for _, line := range lines {
		_, has, _ := strings.Cut(line, "-X ")
		if strings.HasPrefix(line, "    curl ") && call.MatchString(line) && (has == "" && method == "GET" || strings.HasPrefix(has, method+" ")) {
			return true
		}
	}
	return false
}
