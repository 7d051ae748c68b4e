package archtest

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// arrows says which of our packages each of our packages may import (docs/architecture.md). A new
// package needs a row; a row whose package is gone must go. A row that ends in /... is for a whole
// module that nobody imports. Tests may import what lies under internal/, and
// examples below their own package, besides.
var arrows = map[string][]string{
	"internal/archtest":               {},
	"internal/leaks":                  {},
	"internal/fleet":                  {"internal/relay"},
	"internal/fleettest":              {"breaker", "internal/fleet", "replica"},
	"internal/relay":                  {},
	"internal/route":                  {"breaker", "replica", "replica/postgres"},
	"breaker":                         {},
	"limit":                           {}, // neither it nor breaker knows the other
	"emit":                            {"breaker", "limit"},
	"emit/emittest":                   {"emit"},
	"readpath":                        {"limit", "replica"},
	"contrib/ottercache":              {"readpath"},
	"contrib/boltletters":             {"emit", "emit/emittest"}, // its tests run the contract
	"contrib/prometheus":              {"breaker", "emit", "readpath", "replica"},
	"readpath/httpread":               {"readpath", "replica"},
	"breaker/httpbreaker":             {"breaker", "internal/httpwire"},
	"replica":                         {"breaker"},
	"replica/postgres":                {"breaker", "replica"},
	"pgxread":                         {"breaker", "internal/route", "readpath", "replica", "replica/postgres"},
	"sqlread":                         {"breaker", "internal/route", "readpath", "replica", "replica/postgres"},
	"pgxread/examples/sqlcshape":      {}, // what sqlc generates: it must not know us
	"contrib/grpc":                    {"breaker", "contrib/grpc/internal/retryinfo"},
	"contrib/otel":                    {"breaker", "breaker/httpbreaker", "emit"},
	"contrib/otelpgx":                 {"breaker", "contrib/otel", "pgxread", "readpath", "replica", "replica/postgres"},
	"cmd/breakwater/...":              {anything},
	"dev/...":                         {anything},
	"internal/httpwire":               {},
	"internal/cloudevent":             {"emit"},
	"emit/httpsink":                   {"emit", "internal/cloudevent", "internal/httpwire"},
	"emit/faultsink":                  {"emit", "emit/emittest", "emit/httpsink", "internal/cloudevent"}, // the two for its tests
	"contrib/grpc/grpcsink":           {"contrib/grpc/internal/retryinfo", "emit", "emit/emittest", "internal/cloudevent"},
	"contrib/grpc/internal/retryinfo": {},
}

// anything is what a program may import.
const anything = "..."

func checkArrows(tree fs.FS) []string { return faultsOfArrows(tree, arrows) }

func faultsOfArrows(tree fs.FS, arrows map[string][]string) []string {
	var faults []string
	seen := map[string]bool{anything: true}
	for _, name := range files(tree, isGo) {
		dir := path.Dir(name)
		row := rowOf(dir, arrows)
		seen[dir], seen[row] = true, true
		allowed, ok := arrows[row]
		if !ok {
			faults = append(faults, fmt.Sprintf("package %s has no row in arrows_test.go: say there what it may import", dir))
			continue
		}
		for _, imported := range ownImports(tree, name) {
			if !mayImport(name, dir, imported, allowed) {
				faults = append(faults, fmt.Sprintf("%s: imports %s; %s may import only %v (docs/architecture.md)", name, imported, dir, allowed))
			}
		}
	}
	for dir, allowed := range arrows {
		for _, named := range append([]string{dir}, allowed...) {
			if !seen[named] {
				faults = append(faults, fmt.Sprintf("arrows_test.go: the row of %s names %s, which does not exist: remove it", dir, named))
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(faults)))
}

// rowOf is the row that rules a directory: its own, or that of the module which it lies in.
func rowOf(dir string, arrows map[string][]string) string {
	for row := range arrows {
		if module, ok := strings.CutSuffix(row, "/..."); ok && strings.HasPrefix(dir+"/", module+"/") {
			return row
		}
	}
	return dir
}

func mayImport(name, dir, imported string, allowed []string) bool {
	switch {
	case imported == dir, slices.Contains(allowed, imported), slices.Contains(allowed, anything):
		return true
	default:
		return isTest(name) && (strings.HasPrefix(imported, "internal/") || strings.HasPrefix(imported, dir+"/examples/"))
	}
}

// ownImports are the imported packages of this repository, as directories from its root.
func ownImports(tree fs.FS, name string) []string {
	var own []string
	for _, imported := range imports(tree, name) {
		if rest, ok := strings.CutPrefix(imported, modulePath+"/"); ok {
			own = append(own, rest)
		}
	}
	return own
}

func imports(tree fs.FS, name string) []string {
	file, err := parser.ParseFile(token.NewFileSet(), name, read(tree, name), parser.ImportsOnly)
	if err != nil {
		return nil // the compiler says it better
	}
	var paths []string
	for _, spec := range file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}
