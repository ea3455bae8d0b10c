package tidy

import (
	"go/ast"
	"testing"
)

// Bounds that nothing outside tests may pass. They are far above what is usual
// (files under 500 lines, functions of some ten): a bound of 70 would be argued
// with every week, this one is not.
const (
	fileLinesMax     = 800
	functionLinesMax = 100
)

func TestSizes(t *testing.T) {
	tree := mustTree(t)
	for _, p := range tree.pkgs {
		for _, s := range p.sources {
			if s.test {
				continue
			}
			if s.size > fileLinesMax {
				t.Errorf("%s has %d lines, at most %d; split it by concept", s.name, s.size, fileLinesMax)
			}
			for _, d := range s.ast.Decls {
				if f, ok := d.(*ast.FuncDecl); ok {
					checkFunction(t, tree, f)
				}
			}
		}
	}
}

func checkFunction(t *testing.T, tree *tree, f *ast.FuncDecl) {
	t.Helper()
	first, last := tree.fset.Position(f.Pos()).Line, tree.fset.Position(f.End()).Line
	if lines := last - first + 1; lines > functionLinesMax {
		t.Errorf("%s: %s has %d lines, at most %d; keep the branches and move the straight parts into helpers",
			tree.where(f.Pos()), f.Name.Name, lines, functionLinesMax)
	}
}
