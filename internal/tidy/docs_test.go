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

// documented are tables of docs that must agree with the code. Each stands in
// its file between <!-- table NAME --> and <!-- end -->. To add one: put the
// markers round the table and a row here, with a function that makes the table
// from the code (tables_test.go has some). docs/configuration.md is held by
// internal/config instead, which makes all of it.
var documented = []struct {
	file, name string
	make       func(*tree) (string, error)
}{
	{formats, "versions", values(formats, "versions")},
	{formats, "sizes", values(formats, "sizes")},
	{formats, "superblock.Identity", layout("superblock.Identity")},
	{formats, "superblock.recordMagic", layout("superblock.recordMagic")},
	{formats, "superblock.State", layout("superblock.State")},
	{formats, "wal.fileHeader", layout("wal.fileHeader")},
	{formats, "wal.frame", layout("wal.frame")},
	{formats, "wal.Kind", values(formats, "wal.Kind", "wal.Kind")},
	{formats, "vsr.Header", layout("vsr.Header")},
	{formats, "snapshot.magic", layout("snapshot.magic")},
	{formats, "sections", values(formats, "sections")},
	{formats, "metadata.EncodeState", layout("metadata.EncodeState")},
	{formats, "metadata.appendTopic", layout("metadata.appendTopic")},
	{formats, "wire.AppendState", layout("wire.AppendState")},
	{formats, "metadata.EncodeClients", layout("metadata.EncodeClients")},
	{formats, "internal operations", values(formats, "internal operations", "metadata.Operation")},
	{formats, "metadata.Bootstrap", layout("metadata.Bootstrap")},
	{formats, "metadata.Configure", layout("metadata.Configure")},
	{formats, "metadata.Credential", layout("metadata.Credential")},
	{formats, "metadata.NewUser", layout("metadata.NewUser")},
	{formats, "metadata.NewPassword", layout("metadata.NewPassword")},
	{formats, "metadata.NewToken", layout("metadata.NewToken")},
	{formats, "metadata.newTopic", layout("metadata.newTopic")},
	{formats, "metadata.appendMember", layout("metadata.appendMember")},
	{formats, "metadata.join", layout("metadata.join")},
	{formats, "metadata.Departure", layout("metadata.Departure")},
	{formats, "metadata.Completion", layout("metadata.Completion")},
	{formats, "metadata.Truncation", layout("metadata.Truncation")},
	{formats, "shard.sectionTable", layout("shard.sectionTable")},
	{formats, "shard.pairing", layout("shard.pairing")},
	{formats, "shard.promise", layout("shard.promise")},
	{formats, "shard.staging", layout("shard.staging")},
	{formats, "shard.decodeTaken", layout("shard.decodeTaken")},
	{formats, "partition.checkpointMagic", layout("partition.checkpointMagic")},
	{formats, "partition.Op", values(formats, "partition.Op", "partition.Op")},
	{formats, "partition.StoreOffset", layout("partition.StoreOffset")},
	{formats, "partition.DeleteOffset", layout("partition.DeleteOffset")},
	{formats, "partition.Claim", layout("partition.Claim")},
	{formats, "wire.Batch", layout("wire.Batch")},
	{formats, "wire.Frame", layout("wire.Frame")},
	{formats, "partition.indexMagic", layout("partition.indexMagic")},
	{protocol, "messages", values(protocol, "messages", "vsr.Message")},
	{protocol, "quorums", quorums},
}

const (
	formats  = "docs/formats.md"
	protocol = "docs/protocol.md"
)

func TestDocumentedTables(t *testing.T) {
	tree := mustTree(t)
	for _, d := range documented {
		name := filepath.Join(root, d.file)
		text, err := os.ReadFile(name)
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
		switch {
		case err != nil:
			t.Errorf("%s: table %s: %v", d.file, d.name, err)
		case strings.TrimSpace(got) == strings.TrimSpace(want):
		case *update:
			if err := os.WriteFile(name, []byte(remarked(string(text), d.name, want)), 0o644); err != nil {
				t.Error(err)
			}
		default:
			t.Errorf("%s: table %s is not what the code says; run go test ./internal/tidy -run TestDocumentedTables -update. It should be\n%s", d.file, d.name, want)
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

// remarked puts a table between its markers.
func remarked(text, name, table string) string {
	start := "<!-- table " + name + " -->"
	before, rest, _ := strings.Cut(text, start)
	_, after, _ := strings.Cut(rest, "<!-- end -->")
	return before + start + "\n" + table + "\n<!-- end -->" + after
}
