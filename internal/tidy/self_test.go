package tidy

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The checkers, checked: each must complain of the lines of a made-up tree that
// are marked BAD, and of no others.

var madeUp = map[string]string{
	"internal/wire/doc.go": `// Package wire is made up.
package wire

type Set map[string]int

type Frame struct{ Tags map[uint64]string }
`,
	"internal/vsr/core.go": `// Package vsr is made up.
package vsr

import (
	"maps"
	"math/rand/v2" // BAD
	"slices"
	"time" // BAD

	"galgo/internal/wire"
)

type core struct{ votes map[int]bool }

func (c *core) run(set wire.Set, frame *wire.Frame, list []int) {
	for range c.votes { // BAD
	}
	for range set { // BAD
	}
	for range frame.Tags { // BAD
	}
	for range maps.Keys(c.votes) { // BAD
	}
	for range slices.Sorted(maps.Keys(c.votes)) {
	}
	for range list {
	}
	// The sum is order-free: addition commutes.
	for range c.votes {
	}
	// This says nothing of order.
	for range c.votes { // BAD
	}
	_, _ = rand.Int(), time.Second
}
`,
	"internal/vsr/core_test.go": `package vsr

import "time"

func wait(m map[int]int) {
	for range m {
		go time.Now()
	}
}
`,
	"internal/wal/log.go": `// Package wal is made up.
package wal

import (
	"os/exec" // BAD
	"time"
)

func wait(ready chan int) time.Duration {
	go wait(ready) // BAD
	select { // BAD
	case <-ready:
	default:
	}
	return time.Since(time.Time{}) // BAD
}
`,
}

func TestCheckersComplain(t *testing.T) {
	tree := madeUpTree(t)
	complaints := slices.Concat(
		bannedImports(tree, pure, bannedInPure), bannedImports(tree, seamed, bannedInSeamed),
		goroutines(tree, slices.Concat(pure, seamed)), clocks(tree, seamed), mapRanges(tree, pure),
	)
	var got []string
	for _, complaint := range complaints {
		got = append(got, strings.Join(strings.SplitN(complaint, ":", 3)[:2], ":"))
	}
	slices.Sort(got)
	if want := markedBad(); !slices.Equal(got, want) {
		t.Errorf("complaints at %q\nwant them at %q", got, want)
	}
}

func madeUpTree(t *testing.T) *tree {
	t.Helper()
	tree := newTree()
	for name, text := range madeUp {
		s, err := tree.parseText(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		tree.add(s)
	}
	return tree
}

// markedBad returns file and line of each line marked BAD.
func markedBad() []string {
	var bad []string
	for name, text := range madeUp {
		for i, line := range strings.Split(text, "\n") {
			if strings.Contains(line, "// BAD") {
				bad = append(bad, name+":"+strconv.Itoa(i+1))
			}
		}
	}
	slices.Sort(bad)
	return bad
}

func TestLinks(t *testing.T) {
	for target, ok := range map[string]bool{
		"https://example.com/x": true, "../../internal/tidy/doc.go": true, "../../internal/tidy": true,
		"../../internal/tidy/none.go": false, "../../CONTRIBUTING.md#build-test-lint": true, "../../CONTRIBUTING.md#no-such-heading": false,
	} {
		if err := checkLink("internal/tidy/README.md", target); (err == nil) != ok {
			t.Errorf("link to %s: got %v, want it to be fine: %t", target, err, ok)
		}
	}
	text := "[a](b.md) `[c](d.md)`\n```\n[e](f.md)\n```\n![g](h.png)"
	var found []string
	for _, match := range link.FindAllStringSubmatch(withoutCode(text), -1) {
		found = append(found, match[1])
	}
	if want := []string{"b.md", "h.png"}; !slices.Equal(found, want) {
		t.Errorf("found links to %q, want %q", found, want)
	}
}

func TestMarked(t *testing.T) {
	got, ok := marked("a <!-- table x -->\n| 1 |\n<!-- end --> b", "x")
	if strings.TrimSpace(got) != "| 1 |" || !ok {
		t.Errorf("got %q, %t", got, ok)
	}
	for _, text := range []string{"no table", "<!-- table x --> without an end"} {
		if _, ok := marked(text, "x"); ok {
			t.Errorf("%q has a table", text)
		}
	}
}

// TestHeadings: a heading stands at the start of a line, outside code.
func TestHeadings(t *testing.T) {
	got := headings("# One `two`: three!\ntext # no\n## Four-five_six\n```\n# seven\n```\n")
	for _, want := range []string{"one-two-three", "four-five_six"} {
		if !got[want] {
			t.Errorf("no heading %q in %v", want, got)
		}
	}
	if len(got) != 2 {
		t.Errorf("got %v, want two headings", got)
	}
}
