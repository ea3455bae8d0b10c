package shard

import (
	"math"
	"testing"
)

// A life is over when a later one was heard of, or when nothing was for long enough, by who has
// led for as long. What comes late from an earlier life is no sign of the later one.
func TestWhichLivesAreOver(t *testing.T) {
	const patience = 100
	var a absences
	for _, tt := range []struct {
		what     string
		does     func()
		patience uint64
		want     uint64
	}{
		{"nothing was heard of yet", func() { a.ticks = patience - 1 }, patience, 0},
		{"for long enough", func() { a.ticks = patience }, patience, math.MaxUint64},
		{"who looks has just begun to lead", func() { a.since = 1 }, patience, 0},
		{"it is heard", func() { a.heard(1, 7) }, patience, 6},
		{"in another life", func() { a.heard(1, 9) }, patience, 8},
		{"late from the earlier one", func() { a.ticks += patience - 1; a.heard(1, 7) }, patience, 8},
		{"of the later one nothing is heard", func() { a.ticks++ }, patience, math.MaxUint64},
		{"where silence says nothing", func() {}, 0, 8},
		{"a stranger", func() { a.heard(200, 11) }, 0, 8},
	} {
		tt.does()
		if got := a.over(1, tt.patience); got != tt.want {
			t.Errorf("%s: lives up to %d are over, want %d", tt.what, got, tt.want)
		}
	}
}
