package tidy

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPackageDocs: a package says what its one job is.
func TestPackageDocs(t *testing.T) {
	tree := mustTree(t)
	for _, p := range tree.pkgs {
		first, docs := "", 0
		for _, s := range p.sources {
			if s.test {
				continue
			}
			first = s.name
			if doc := s.ast.Doc.Text(); doc != "" {
				docs++
				checkDocStart(t, s, doc)
			}
		}
		if first != "" && docs == 0 {
			t.Errorf("package %s has no doc; begin it in doc.go with what the package is for", p.importPath())
		}
		if docs > 1 {
			t.Errorf("package %s has %d package docs; keep one, in doc.go", p.importPath(), docs)
		}
	}
}

func checkDocStart(t *testing.T, s *source, doc string) {
	t.Helper()
	name := s.ast.Name.Name
	if want := "Package " + name + " "; name != "main" && !strings.HasPrefix(doc, want) {
		t.Errorf("%s: the package doc begins %q, want %q", s.name, firstWords(doc), want)
	}
}

func firstWords(text string) string {
	return strings.Join(strings.Fields(text)[:min(4, len(strings.Fields(text)))], " ")
}

// link matches [text](target) of Markdown; images too.
var link = regexp.MustCompile(`\]\(([^()\s]+)\)`)

// TestMarkdownLinks: links to files and headings of this tree lead somewhere.
func TestMarkdownLinks(t *testing.T) {
	err := walkTree(func(name string) error {
		if !strings.HasSuffix(name, ".md") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		for _, match := range link.FindAllStringSubmatch(withoutCode(string(text)), -1) {
			if err := checkLink(name, match[1]); err != nil {
				t.Errorf("%s: link to %s: %v", name, match[1], err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// fence and span match code, in which brackets are no links.
var (
	fence = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	span  = regexp.MustCompile("`[^`\n]+`")
)

func withoutCode(text string) string {
	return span.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
}

// checkLink resolves a link from a file of the tree.
func checkLink(from, target string) error {
	u, err := url.Parse(target)
	if err != nil {
		return err
	}
	if u.Scheme != "" {
		return nil // elsewhere
	}
	file := from
	if u.Path != "" {
		file = path.Join(path.Dir(from), u.Path)
	}
	info, err := os.Stat(filepath.Join(root, file))
	if err != nil {
		return fmt.Errorf("%s does not exist", file)
	}
	if u.Fragment == "" || info.IsDir() || !strings.HasSuffix(file, ".md") {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return err
	}
	if !headings(string(text))[u.Fragment] {
		return fmt.Errorf("%s has no heading #%s", file, u.Fragment)
	}
	return nil
}

var (
	heading      = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	notInHeading = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// headings returns the fragments of a Markdown text as hosts of repositories
// make them.
func headings(text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		words := notInHeading.ReplaceAllString(strings.ToLower(match[1]), "")
		found[strings.ReplaceAll(words, " ", "-")] = true
	}
	return found
}

// documented are tables of docs that must agree with constants. Each stands in
// its file between <!-- table NAME --> and <!-- end -->. To add one: put the
// markers round the table and a row here, with a function that makes the table
// from the constants. docs/configuration.md is held by internal/config instead,
// which makes all of it.
var documented = []struct {
	file, name string
	make       func(*tree) (string, error)
}{}

func TestDocumentedTables(t *testing.T) {
	tree := mustTree(t)
	for _, d := range documented {
		text, err := os.ReadFile(filepath.Join(root, d.file))
		if err != nil {
			t.Error(err)
			continue
		}
		got, ok := marked(string(text), d.name)
		if !ok {
			t.Errorf("%s: put the table between <!-- table %s --> and <!-- end -->", d.file, d.name)
			continue
		}
		want, err := d.make(tree)
		if err != nil {
			t.Errorf("%s: table %s: %v", d.file, d.name, err)
		} else if strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%s: table %s is not what the constants say; it should be\n%s", d.file, d.name, want)
		}
	}
}

// marked returns what stands between the markers of a table.
func marked(text, name string) (string, bool) {
	_, rest, ok := strings.Cut(text, "<!-- table "+name+" -->")
	if !ok {
		return "", false
	}
	table, _, ok := strings.Cut(rest, "<!-- end -->")
	return table, ok
}
