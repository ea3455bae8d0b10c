package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// pure packages decide: equal inputs give equal outputs and equal state, on
// every replica and in every simulation.
var pure = []string{".", "internal/wire", "internal/vsr", "internal/metadata"}

// seamed packages do their work through the disk seam, on their caller's
// goroutine.
var seamed = []string{"internal/partition", "internal/wal"}

// bannedInPure maps an import to what to use instead. A name that ends in /
// stands for all below it.
var bannedInPure = map[string]string{
	"context":    "the driver decides when to stop; the core is called and returns",
	"crypto/":    "random bytes, salts and hashes are made at the edge and arrive inside the request",
	"io/fs":      "the disk seam, in a package that may have it",
	"log":        "an event or an error that the caller reports",
	"log/":       "an event or an error that the caller reports",
	"math/rand":  "randomness is an input, handed in by the driver",
	"math/rand/": "randomness is an input, handed in by the driver",
	"net":        "frames arrive as bytes",
	"net/http":   "frames arrive as bytes",
	"os":         "the disk seam, in a package that may have it",
	"os/":        "the disk seam, in a package that may have it",
	"runtime":    "nothing that differs from machine to machine",
	"sync":       "one goroutine owns the state; readers get immutable views",
	"sync/":      "one goroutine owns the state; readers get immutable views",
	"syscall":    "the disk seam, in a package that may have it",
	"time":       "a tick, or a timestamp in µs inside an input",
	"unsafe":     "encode and decode by hand",
}

// bannedInSeamed is the same for packages on the disk seam.
var bannedInSeamed = map[string]string{
	"math/rand":  "randomness is an input",
	"math/rand/": "randomness is an input",
	"net":        "frames arrive as bytes",
	"os":         "disk.Disk, so that tests can crash it",
	"os/":        "disk.Disk, so that tests can crash it",
	"syscall":    "disk.Disk, so that tests can crash it",
}

func TestBannedImports(t *testing.T) {
	tree := mustTree(t)
	report(t, bannedImports(tree, pure, bannedInPure))
	report(t, bannedImports(tree, seamed, bannedInSeamed))
}

// report fails for each complaint.
func report(t *testing.T, complaints []string) {
	t.Helper()
	for _, complaint := range complaints {
		t.Error(complaint)
	}
}

func bannedImports(tree *tree, dirs []string, banned map[string]string) []string {
	var complaints []string
	for _, s := range sourcesOf(tree, dirs) {
		for name, at := range s.imports() {
			if instead, ok := ban(banned, name); ok {
				complaints = append(complaints, fmt.Sprintf("%s: %q is banned here; use instead: %s", tree.where(at), name, instead))
			}
		}
	}
	return complaints
}

// ban looks an import up in a table of bans.
func ban(banned map[string]string, name string) (instead string, ok bool) {
	if instead, ok = banned[name]; ok {
		return instead, true
	}
	for at := name; ; {
		i := strings.LastIndexByte(at, '/')
		if i < 0 {
			return "", false
		}
		at = at[:i]
		if instead, ok = banned[at+"/"]; ok {
			return instead, true
		}
	}
}

// sourcesOf returns the sources of the packages, tests left out.
func sourcesOf(tree *tree, dirs []string) []*source {
	var sources []*source
	for _, dir := range dirs {
		if p := tree.find(dir); p != nil {
			for _, s := range p.sources {
				if !s.test {
					sources = append(sources, s)
				}
			}
		}
	}
	return sources
}

// TestNoGoroutines: what is pure or seamed runs where it is called. A select
// with two ready cases picks one at random, so it is banned with go.
func TestNoGoroutines(t *testing.T) {
	report(t, goroutines(mustTree(t), slices.Concat(pure, seamed)))
}

func goroutines(tree *tree, dirs []string) []string {
	return complain(tree, dirs, func(n ast.Node) string {
		switch n.(type) {
		case *ast.GoStmt:
			return "no go statement here; hand the work to the caller, which owns goroutines"
		case *ast.SelectStmt:
			return "no select here; it picks among ready cases at random"
		}
		return ""
	})
}

// complain returns what judge has to say about the nodes of the sources.
func complain(tree *tree, dirs []string, judge func(ast.Node) string) []string {
	var complaints []string
	for _, s := range sourcesOf(tree, dirs) {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if n == nil {
				return false
			}
			if complaint := judge(n); complaint != "" {
				complaints = append(complaints, tree.where(n.Pos())+": "+complaint)
			}
			return true
		})
	}
	return complaints
}

// clockReaders are functions of package time that ask the machine for the time.
var clockReaders = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

func TestNoClock(t *testing.T) { report(t, clocks(mustTree(t), seamed)) }

func clocks(tree *tree, dirs []string) []string {
	return complain(tree, dirs, func(n ast.Node) string {
		if name, ok := selector(n, "time"); ok && slices.Contains(clockReaders, name) {
			return "no time." + name + " here; time arrives as a value"
		}
		return ""
	})
}

// selector returns the name of pkg.name.
func selector(n ast.Node, pkg string) (name string, ok bool) {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	x, ok := s.X.(*ast.Ident)
	return s.Sel.Name, ok && x.Name == pkg
}

// orderFree marks a range over a map whose order cannot show; a reason follows.
const orderFree = "order-free:"

// TestMapOrder: the order of a map differs from run to run, so in a pure
// package a range over one needs a reason why it cannot show.
func TestMapOrder(t *testing.T) { report(t, mapRanges(mustTree(t), pure)) }

func mapRanges(tree *tree, dirs []string) []string {
	checker := &mapChecker{tree: tree, done: map[string]*types.Package{}}
	var complaints []string
	for _, dir := range dirs {
		if p := tree.find(dir); p != nil {
			for _, at := range checker.unexplained(p) {
				complaints = append(complaints, fmt.Sprintf(
					"%s: the order of this map may show; range over sorted keys, or write `// %s why` on the line above", tree.where(at), orderFree))
			}
		}
	}
	return complaints
}

// mapChecker finds ranges over maps. It knows the types of galgo's own packages
// and treats all others as unknown, which is quick and enough: maps that matter
// are declared here.
type mapChecker struct {
	tree *tree
	done map[string]*types.Package
}

func (c *mapChecker) unexplained(p *pkg) []token.Pos {
	var found []token.Pos
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	c.check(p, info)
	for _, s := range p.sources {
		if s.test {
			continue
		}
		reasons := c.reasonLines(s)
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if r, ok := n.(*ast.RangeStmt); ok && isUnordered(info, r.X) && !reasons[c.line(r.Pos())-1] {
				found = append(found, r.Pos())
			}
			return true
		})
	}
	return found
}

func (c *mapChecker) line(at token.Pos) int { return c.tree.fset.Position(at).Line }

// reasonLines returns the last lines of comments that give a reason.
func (c *mapChecker) reasonLines(s *source) map[int]bool {
	lines := map[int]bool{}
	for _, group := range s.ast.Comments {
		if strings.Contains(group.Text(), orderFree) {
			lines[c.line(group.End())] = true
		}
	}
	return lines
}

// isUnordered reports whether x is a map, or an iterator over one.
func isUnordered(info *types.Info, x ast.Expr) bool {
	if call, ok := x.(*ast.CallExpr); ok {
		name, isMaps := selector(call.Fun, "maps")
		return isMaps && slices.Contains([]string{"All", "Keys", "Values"}, name)
	}
	known := info.Types[x].Type
	if known == nil {
		return false
	}
	_, isMap := known.Underlying().(*types.Map)
	return isMap
}

func (c *mapChecker) check(p *pkg, info *types.Info) *types.Package {
	config := types.Config{Importer: c, Error: func(error) {}} // unknown types of others are no news
	var files []*ast.File
	for _, s := range p.sources {
		if !s.test {
			files = append(files, s.ast)
		}
	}
	checked, _ := config.Check(p.importPath(), c.tree.fset, files, info)
	return checked
}

// Import makes mapChecker a types.Importer.
func (c *mapChecker) Import(name string) (*types.Package, error) {
	if known := c.done[name]; known != nil {
		return known, nil
	}
	var checked *types.Package
	if dir, ok := ownDir(name); ok {
		if p := c.tree.find(dir); p != nil {
			checked = c.check(p, nil)
		}
	}
	if checked == nil {
		checked = types.NewPackage(name, name[strings.LastIndexByte(name, '/')+1:])
		checked.MarkComplete()
	}
	c.done[name] = checked
	return checked, nil
}
