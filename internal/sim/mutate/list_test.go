package main

import (
	"strings"
	"testing"
)

// Each mutation still has a place in the sources, so that a rule that was moved or
// reworded does not drop out unseen.
func TestMutationsApply(t *testing.T) {
	list, err := parseList(mutations)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if _, err := list[i].apply("../../.."); err != nil {
			t.Error(err)
		}
	}
}

func TestListsThatAreRefused(t *testing.T) {
	const good = "mutation m\nrule r\nfile f\nfind\na\nput\nb\nend\n"
	if list, err := parseList(good); err != nil || len(list) != 1 || list[0].edits[0] != (edit{"f", "a\n", "b\n"}) {
		t.Fatal(list, err)
	}
	for name, text := range map[string]string{
		"a rule before the first": "rule r\n",
		"twice":                   good + good,
		"no rule":                 strings.Replace(good, "rule r\n", "", 1),
		"no edit":                 "mutation m\nrule r\n",
		"no find":                 strings.Replace(good, "find\n", "", 1),
		"no end":                  strings.Replace(good, "end\n", "", 1),
		"another word":            good + "word\n",
	} {
		if _, err := parseList(text); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
