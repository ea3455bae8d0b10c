package tidy

import (
	"flag"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"galgo/internal/vsr"
)

// update writes the tables of docs anew: go test ./internal/tidy -run TestDocumentedTables -update
var update = flag.Bool("update", false, "write the documented tables anew")

// layout makes a block of the byte table in the comment at a declaration: the
// comment is the specification, and the docs have a copy that cannot differ.
func layout(name string) func(*tree) (string, error) {
	return func(t *tree) (string, error) {
		text, err := t.commentOf(name)
		if err != nil {
			return "", err
		}
		var lines []string
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			if rest, ok := strings.CutPrefix(line, "\t"); ok {
				lines = append(lines, rest)
			} else if line == "" && len(lines) > 0 && lines[len(lines)-1] != "" {
				lines = append(lines, "")
			}
		}
		if len(lines) == 0 {
			return "", fmt.Errorf("the comment at %s has no indented table", name)
		}
		return "```text\n" + strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n```", nil
	}
}

// commentOf returns the comment at a declaration, given as package.name. Of a
// group of constants or variables any member will do.
func (t *tree) commentOf(name string) (string, error) {
	p, ident, err := t.named(name)
	if err != nil {
		return "", err
	}
	for _, s := range p.sources {
		for _, d := range s.ast.Decls {
			if text := commentIn(d, ident); text != "" && !s.test {
				return text, nil
			}
		}
	}
	return "", fmt.Errorf("%s: package %s declares no such thing, or it has no comment", name, p.importPath())
}

func commentIn(d ast.Decl, ident string) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.Name == ident {
			return d.Doc.Text()
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			own, found := specDoc(spec, ident)
			switch {
			case found && own != "":
				return own
			case found:
				return d.Doc.Text()
			}
		}
	}
	return ""
}

func specDoc(spec ast.Spec, ident string) (doc string, found bool) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return spec.Doc.Text(), spec.Name.Name == ident
	case *ast.ValueSpec:
		return spec.Doc.Text(), slices.ContainsFunc(spec.Names, func(i *ast.Ident) bool { return i.Name == ident })
	}
	return "", false
}

// named splits package.name; the package is the one whose directory ends so.
func (t *tree) named(name string) (*pkg, string, error) {
	last, ident, ok := strings.Cut(name, ".")
	if !ok {
		return nil, "", fmt.Errorf("%q is not package.name", name)
	}
	for _, p := range t.pkgs {
		if path.Base(p.importPath()) == last {
			return p, ident, nil
		}
	}
	return nil, "", fmt.Errorf("%s: there is no package %s", name, last)
}

// values makes a table anew with the values that the code has: the first cell of
// a row names a constant, the second is its value, the rest is for people. Each
// of complete is a prefix: the table must have all exported constants whose name
// begins so.
func values(file, table string, complete ...string) func(*tree) (string, error) {
	return func(t *tree) (string, error) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return "", err
		}
		old, _ := marked(string(text), table)
		var lines []string
		seen := map[string]bool{}
		for i, line := range strings.Split(strings.TrimSpace(old), "\n") {
			if i >= 2 { // behind the head
				if line, err = t.valueRow(line, seen); err != nil {
					return "", err
				}
			}
			lines = append(lines, line)
		}
		for _, prefix := range complete {
			if err := t.checkComplete(prefix, seen); err != nil {
				return "", err
			}
		}
		return strings.Join(lines, "\n"), nil
	}
}

func (t *tree) valueRow(line string, seen map[string]bool) (string, error) {
	cells := strings.Split(line, "|")
	if len(cells) < 4 {
		return "", fmt.Errorf("%q is no row of constant and value", line)
	}
	name := strings.Trim(strings.TrimSpace(cells[1]), "`")
	value, err := t.constant(name)
	if err != nil {
		return "", err
	}
	seen[name] = true
	cells[2] = " " + shown(value, strings.TrimSpace(cells[2])) + " "
	return strings.Join(cells, "|"), nil
}

// shown is a value in the way of the text it replaces: hexadecimal where that was.
func shown(v constant.Value, like string) string {
	if v.Kind() == constant.String {
		return "`" + constant.StringVal(v) + "`"
	}
	if n, ok := constant.Uint64Val(v); ok && strings.HasPrefix(strings.Trim(like, "`"), "0x") {
		return "`0x" + strconv.FormatUint(n, 16) + "`"
	}
	return v.ExactString()
}

// checkedPackages holds what scope has found out, by import path.
var checkedPackages = map[string]*types.Package{}

// scope returns what a package declares.
func (t *tree) scope(p *pkg) *types.Scope {
	if known := checkedPackages[p.importPath()]; known != nil {
		return known.Scope()
	}
	checker := &mapChecker{tree: t, done: checkedPackages}
	checked := checker.check(p, &types.Info{})
	checkedPackages[p.importPath()] = checked
	return checked.Scope()
}

func (t *tree) constant(name string) (constant.Value, error) {
	p, ident, err := t.named(name)
	if err != nil {
		return nil, err
	}
	c, ok := t.scope(p).Lookup(ident).(*types.Const)
	if !ok || c.Val().Kind() == constant.Unknown {
		return nil, fmt.Errorf("package %s has no constant %s", p.importPath(), ident)
	}
	return c.Val(), nil
}

func (t *tree) checkComplete(prefix string, seen map[string]bool) error {
	p, start, err := t.named(prefix)
	if err != nil {
		return err
	}
	scope := t.scope(p)
	for _, name := range scope.Names() {
		rest, ok := strings.CutPrefix(name, start)
		_, isConst := scope.Lookup(name).(*types.Const)
		full := strings.TrimSuffix(prefix, start) + name
		if ok && isConst && token.IsExported(name) && token.IsExported(rest) && !seen[full] {
			return fmt.Errorf("there is no row for `%s`", full)
		}
	}
	return nil
}

// quorums makes the table of quorum sizes by asking the core.
func quorums(*tree) (string, error) {
	b := "| Replicas | Replication | View change | Nack |\n| ---: | ---: | ---: | ---: |"
	for n := 1; n <= 7; n++ {
		q := vsr.QuorumsOf(n)
		b += fmt.Sprintf("\n| %d | %d | %d | %d |", n, q.Replication, q.ViewChange, q.Nack)
	}
	return b, nil
}

// errorTexts returns the exported sentinel errors of a package with their texts.
func (t *tree) errorTexts(dir string) map[string]string {
	texts := map[string]string{}
	for _, s := range sourcesOf(t, []string{dir}) {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Err") {
				return true
			}
			call, ok := spec.Values[0].(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			if _, isNew := selector(call.Fun, "errors"); isNew {
				if lit, ok := call.Args[0].(*ast.BasicLit); ok {
					texts[path.Base(dir)+"."+spec.Names[0].Name], _ = strconv.Unquote(lit.Value)
				}
			}
			return true
		})
	}
	return texts
}

// refusing are the packages whose errors an operator may meet. Those of config
// need no entry: each says itself what would be right.
var refusing = []string{"internal/cipher", "internal/disk", "internal/metadata", "internal/node", "internal/partition", "internal/shard",
	"internal/snapshot", "internal/superblock", "internal/wal"}

// inside are errors of these packages that a caller deals with.
var inside = map[string]string{
	"disk.ErrName":                 "names are made by galgo",
	"partition.ErrStale":           "the poll is planned again",
	"shard.ErrNoGroup":             "who asked to step down is told",
	"superblock.ErrDegraded":       "an unreadable superblock is refused before anything is written",
	"superblock.ErrIdentityAbsent": "the directory is formatted",
	"superblock.ErrIdentityExists": "an owner is looked for first",
	"superblock.ErrPayload":        "a state has one length",
	"superblock.ErrSequence":       "it takes 2^64 writes",
	"wal.ErrNotFound":              "only ops that are there are read",
}

// TestRefusalsAreExplained: whoever searches the docs for what a node said finds
// what it means and what to do.
func TestRefusalsAreExplained(t *testing.T) {
	const file = "docs/operations.md"
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	tree := mustTree(t)
	known := map[string]bool{}
	for _, dir := range refusing {
		for name, message := range tree.errorTexts(dir) {
			known[name] = true
			if entry := "#### `" + message + "` (`" + name + "`)\n"; inside[name] == "" && !strings.Contains(string(text), entry) {
				t.Errorf("%s does not say what to do about %s; add an entry that begins %s", file, name, entry)
			}
		}
	}
	for _, match := range regexp.MustCompile("`([a-z]+\\.Err[A-Z]\\w*)`").FindAllStringSubmatch(string(text), -1) {
		if !known[match[1]] {
			t.Errorf("%s explains %s, which is not there any more", file, match[1])
		}
	}
}

// testName matches package.TestName in Markdown.
var testName = regexp.MustCompile("`([a-z]+)\\.((?:Test|Fuzz)[A-Z]\\w*)`")

// TestNamedTestsExist: docs that rest on a test name one that is there.
func TestNamedTestsExist(t *testing.T) {
	tree := mustTree(t)
	err := walkTree(func(name string) error {
		if !strings.HasSuffix(name, ".md") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		for _, match := range testName.FindAllStringSubmatch(string(text), -1) {
			if !tree.hasTest(match[1], match[2]) {
				t.Errorf("%s names %s.%s, and there is no such test", name, match[1], match[2])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (t *tree) hasTest(pkgName, test string) bool {
	for _, p := range t.pkgs {
		if path.Base(p.importPath()) != pkgName {
			continue
		}
		for _, s := range p.sources {
			if s.test && slices.ContainsFunc(s.ast.Decls, func(d ast.Decl) bool {
				f, ok := d.(*ast.FuncDecl)
				return ok && f.Recv == nil && f.Name.Name == test
			}) {
				return true
			}
		}
	}
	return false
}
