package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
)

func checkNoSleepingTests(tree fs.FS) []string { return faultsOfSleepers(tree, sleepers) }

// faultsOfSleepers: a test that sleeps is slow, and still wrong on a slow machine. In a bubble of
// testing/synctest sleeping costs nothing and is exact. A test file may sleep if it works
// with bubbles: it uses testing/synctest, or calls a function of its package's tests that starts one.
func faultsOfSleepers(tree fs.FS, excused map[string]string) []string {
	tests := map[string]*sleepScan{}
	starters := map[string]bool{} // directory:function
	for _, name := range files(tree, func(name string) bool { return isGo(name) && isTest(name) }) {
		scan := scanForSleep(read(tree, name))
		tests[name] = scan
		for _, starter := range scan.starters {
			starters[path.Dir(name)+":"+starter] = true
		}
	}
	var faults []string
	for name, scan := range tests {
		bubbled := scan.bubbles
		for called := range scan.calls {
			bubbled = bubbled || starters[path.Dir(name)+":"+called]
		}
		switch sleeps := scan.sleep > 0 && !bubbled; {
		case sleeps && excused[name] == "":
			faults = append(faults, fmt.Sprintf("%s:%d: time.Sleep in a test outside testing/synctest: wait for the event, or give the reason in sleepers (source_test.go)", name, scan.sleep))
		case !sleeps && excused[name] != "":
			faults = append(faults, "source_test.go: sleepers names "+name+", which does not sleep: remove it")
		}
	}
	for name := range excused {
		if tests[name] == nil {
			faults = append(faults, "source_test.go: sleepers names "+name+", which does not exist: remove it")
		}
	}
	return faults
}

// A sleepScan is what a test file does about sleeping.
type sleepScan struct {
	sleep    int             // line of the first time.Sleep, 0 if none
	bubbles  bool            // uses testing/synctest
	starters []string        // functions that call synctest.Test
	calls    map[string]bool // functions that are called by their bare name
}

func scanForSleep(source string) *sleepScan {
	scan := &sleepScan{calls: map[string]bool{}}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", source, parser.SkipObjectResolution)
	if err != nil {
		return scan // the compiler says it better
	}
	for _, decl := range file.Decls {
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if called, ok := n.Fun.(*ast.Ident); ok {
					scan.calls[called.Name] = true
				}
			case *ast.SelectorExpr:
				if f, ok := decl.(*ast.FuncDecl); ok && isSelector(n, "synctest", "Test") {
					scan.starters = append(scan.starters, f.Name.Name)
				}
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "synctest" {
					scan.bubbles = true
				}
				if scan.sleep == 0 && isSelector(n, "time", "Sleep") {
					scan.sleep = set.Position(n.Pos()).Line
				}
			}
			return true
		})
	}
	return scan
}

func isSelector(n *ast.SelectorExpr, pkg, name string) bool {
	x, ok := n.X.(*ast.Ident)
	return ok && x.Name == pkg && n.Sel.Name == name
}
