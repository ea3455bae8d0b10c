package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// module is the import path of the root package.
const module = "galgo"

// root is the module's directory, seen from this package's.
const root = "../.."

// source is a parsed Go file.
type source struct {
	name string // path from the root
	test bool
	ast  *ast.File
	size int // lines
}

// pkg is the sources of a directory, test files included.
type pkg struct {
	dir     string // path from the root; "." is the root
	sources []*source
}

// importPath returns the path others import the package by.
func (p *pkg) importPath() string { return path.Join(module, p.dir) }

// ownDir returns the directory of a package of this module.
func ownDir(importPath string) (dir string, ok bool) {
	rest, ok := strings.CutPrefix(importPath+"/", module+"/")
	return path.Clean("./" + rest), ok
}

// tree is all sources of the module.
type tree struct {
	fset *token.FileSet
	pkgs []*pkg
}

func newTree() *tree { return &tree{fset: token.NewFileSet()} }

// loadTree parses the module once for all tests.
var loadTree = sync.OnceValues(func() (*tree, error) {
	t := newTree()
	err := walkTree(func(name string) error {
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		s, err := t.parse(name)
		if err != nil {
			return err
		}
		t.add(s)
		return nil
	})
	if len(t.pkgs) == 0 && err == nil {
		err = fmt.Errorf("no sources below %s", root)
	}
	return t, err
})

// add puts a source into the package of its directory.
func (t *tree) add(s *source) {
	dir := path.Dir(s.name)
	p := t.find(dir)
	if p == nil {
		p = &pkg{dir: dir}
		t.pkgs = append(t.pkgs, p)
	}
	p.sources = append(p.sources, s)
}

func mustTree(t *testing.T) *tree {
	t.Helper()
	tree, err := loadTree()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func (t *tree) parse(name string) (*source, error) {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return nil, err
	}
	return t.parseText(name, text)
}

func (t *tree) parseText(name string, text []byte) (*source, error) {
	file, err := parser.ParseFile(t.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &source{name, strings.HasSuffix(name, "_test.go"), file, bytes.Count(text, []byte("\n"))}, nil
}

// where returns file and line of a node.
func (t *tree) where(at token.Pos) string {
	p := t.fset.Position(at)
	return p.Filename + ":" + strconv.Itoa(p.Line)
}

// walkTree visits the files of the module by their path from the root, those of
// modules within it, of hidden directories (except .ci) and of test data left out.
func walkTree(visit func(name string) error) error {
	return filepath.WalkDir(root, func(full string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() {
			if name != "." && skipDir(full, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		return visit(name)
	})
}

func skipDir(full, name string) bool {
	if strings.HasPrefix(name, ".") && name != ".ci" || slices.Contains([]string{"testdata", "bin", "local_data"}, name) {
		return true
	}
	_, err := os.Stat(filepath.Join(full, "go.mod"))
	return err == nil // a module of its own
}

// imports returns the import paths of a file and where they stand.
func (s *source) imports() map[string]token.Pos {
	paths := map[string]token.Pos{}
	for _, spec := range s.ast.Imports {
		if name, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths[name] = spec.Pos()
		}
	}
	return paths
}

// find returns the package in dir, nil if there is none yet.
func (t *tree) find(dir string) *pkg {
	i := slices.IndexFunc(t.pkgs, func(p *pkg) bool { return p.dir == dir })
	if i < 0 {
		return nil
	}
	return t.pkgs[i]
}
