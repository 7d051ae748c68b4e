package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
)

const concurrencyPage = "docs/concurrency.md"

// checkAtomicWords: the table of atomic words names every field of the library that is one.
func checkAtomicWords(tree fs.FS) []string {
	page := read(tree, concurrencyPage)
	var faults []string
	for _, name := range files(tree, func(name string) bool { return isGo(name) && !isTest(name) && isLibrary(name) }) {
		for _, field := range atomicFields(read(tree, name)) {
			if !regexp.MustCompile("[.`]" + field + "`").MatchString(page) {
				faults = append(faults, fmt.Sprintf("%s: the atomic field %s is not in the table of %s: who writes it, who reads it?", name, field, concurrencyPage))
			}
		}
	}
	return faults
}

// isLibrary tells the packages that others build on from programs, whose words are their own.
func isLibrary(name string) bool {
	return rowOf(path.Dir(name), map[string][]string{"cmd/...": nil, "dev/...": nil}) == path.Dir(name)
}

// atomicFields are the names of struct fields whose type is of sync/atomic.
func atomicFields(source string) []string {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil // the compiler says it better
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.StructType); ok {
			for _, field := range s.Fields.List {
				if isAtomic(field.Type) {
					for _, name := range field.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
		return true
	})
	return names
}

func isAtomic(t ast.Expr) bool {
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	s, ok := t.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "atomic"
}
