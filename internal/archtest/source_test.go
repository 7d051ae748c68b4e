package archtest

import (
	"fmt"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// maxCodeLines is where a file must be split; 300 is the aim. Blank lines and comments are free.
const maxCodeLines = 500

// publicPackages are those whose doc must say who may call what at the same time.
var publicPackages = []string{
	"breaker", "breaker/httpbreaker", "contrib/boltletters", "contrib/grpc", "contrib/ottercache", "emit", "emit/emittest", "limit", "pgxread", "readpath",
	"readpath/httpread", "replica", "replica/postgres", "sqlread",
}

// sleepers may call time.Sleep in a test outside a synctest bubble: path to reason.
var sleepers = map[string]string{
	"replica/bench_test.go": "a benchmark's Set samples in real time: in a bubble its figures would mean nothing",
}

// contractSuites are packages of tests that others import from their tests: no program does.
const contractSuites = "emit/emittest"

func checkNoTestingInProduction(tree fs.FS) []string {
	var faults []string
	for _, name := range files(tree, isGo) {
		if isTest(name) || path.Dir(name) == contractSuites {
			continue
		}
		for _, p := range imports(tree, name) {
			if p == "testing" || strings.HasPrefix(p, "testing/") {
				faults = append(faults, fmt.Sprintf("%s: imports %s: it would be linked into the programs of every user; move it to a _test.go file", name, p))
			}
		}
	}
	return faults
}

func checkPackageDocs(tree fs.FS) []string { return faultsOfPackageDocs(tree, publicPackages) }

func faultsOfPackageDocs(tree fs.FS, public []string) []string {
	docs := map[string]string{}
	for _, name := range files(tree, isGo) {
		if file, err := parser.ParseFile(token.NewFileSet(), name, read(tree, name), parser.PackageClauseOnly|parser.ParseComments); err == nil {
			docs[path.Dir(name)] += file.Doc.Text()
		}
	}
	var faults []string
	for dir, doc := range docs {
		if !strings.HasPrefix(doc, "Package ") && !strings.Contains(doc, "\nPackage ") && !strings.HasPrefix(doc, "Command ") {
			faults = append(faults, dir+": no package doc (Package x … or Command x …)")
		}
	}
	for _, dir := range public {
		doc, ok := docs[dir]
		switch {
		case !ok:
			faults = append(faults, "source_test.go: publicPackages names "+dir+", which does not exist: remove it")
		case !strings.Contains(doc, "# Concurrency"):
			faults = append(faults, dir+`: the package doc lacks a "# Concurrency" section: who may call what, what blocks, what a callback may do`)
		}
	}
	return slices.Sorted(slices.Values(faults))
}

func checkFileSize(tree fs.FS) []string {
	var faults []string
	for _, name := range files(tree, isGo) {
		if n := codeLines(read(tree, name)); n > maxCodeLines {
			faults = append(faults, fmt.Sprintf("%s: %d lines of code, more than %d: split it by what its parts do", name, n, maxCodeLines))
		}
	}
	return faults
}

// codeLines counts the lines that hold a token which is no comment.
func codeLines(source string) int {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, []byte(source), func(token.Position, string) {}, 0)
	lines := map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		for i := range strings.Count(lit, "\n") + 1 {
			if tok != token.SEMICOLON || lit != "\n" {
				lines[file.Line(pos)+i] = true
			}
		}
	}
}
