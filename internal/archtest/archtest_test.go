package archtest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

const modulePath = "github.com/breakwater-go/breakwater"

// A rule returns one line for each fault: where, what, and how to mend it.
type rule struct {
	name  string
	check func(tree fs.FS) []string
}

var rules = []rule{
	{"arrows", checkArrows},
	{"core requires nothing", checkCoreRequiresNothing},
	{"nested modules", checkNestedModules},
	{"no testing in production", checkNoTestingInProduction},
	{"package docs", checkPackageDocs},
	{"file size", checkFileSize},
	{"no sleeping tests", checkNoSleepingTests},
	{"atomic words", checkAtomicWords},
	{"requirement citations", checkRequirementCitations},
	{"behaviour citations", checkBehaviourCitations},
	{"behaviour tests", checkBehaviourTests},
	{"forbidden words", checkForbiddenWords},
	{"links", checkLinks},
	{"decision records", checkDecisionRecords},
	{"readme", checkReadme},
	{"shown code", checkShownCode},
	{"server places", checkServerPlaces},
}

func TestRepository(t *testing.T) {
	tree := os.DirFS(repositoryRoot(t))
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, fault := range r.check(tree) {
				t.Error(fault)
			}
		})
	}
}

// repositoryRoot is the nearest directory upwards that holds go.work.
func repositoryRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.work in any directory above")
		}
	}
}

// files lists the files whose names match, without those that are not ours: version control, built
// programs, and installed JavaScript.
func files(tree fs.FS, match func(name string) bool) []string {
	var found []string
	_ = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // a file that another process removed meanwhile is no fault of the tree
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || name == "bin"):
			return fs.SkipDir
		case !d.IsDir() && match(name):
			found = append(found, name)
		}
		return nil
	})
	return found
}

func read(tree fs.FS, name string) string {
	text, _ := fs.ReadFile(tree, name)
	return string(text)
}

func isGo(name string) bool {
	return path.Ext(name) == ".go" && !strings.Contains("/"+name, "/testdata/")
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

// isText reports whether people write and read the file: not the hashes of go.sum.
func isText(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".sh", ".yml", ".yaml", ".mod", ".work", ".svg", ".sql", ".html", ".js", ".css", ".txt":
		return true
	}
	return name == "Makefile" || name == ".ci/run"
}
