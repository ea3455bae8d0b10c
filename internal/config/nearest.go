package config

import (
	"slices"
	"strings"
)

// nearestMax is how many names a hint lists.
const nearestMax = 3

// hint names the known words nearest to an unknown one, or is empty if none is
// near enough to be what was meant.
func hint(word string, known []string) string {
	near := nearest(word, known)
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + orList(near) + "?"
}

// nearest returns up to nearestMax known words, nearest first, none of them much
// further off than the nearest.
func nearest(word string, known []string) []string {
	type candidate struct {
		word     string
		distance int
	}
	// A third of the letters may differ: a typing error, not another word.
	limit := max(2, len(word)/3)
	var found []candidate
	for _, k := range known {
		if abs(len(k)-len(word)) > limit {
			continue
		}
		if d := distance(word, k); d <= limit {
			found = append(found, candidate{k, d})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		if a.distance != b.distance {
			return a.distance - b.distance
		}
		return strings.Compare(a.word, b.word)
	})
	var words []string
	for _, c := range found[:min(len(found), nearestMax)] {
		if c.distance <= found[0].distance+1 {
			words = append(words, c.word)
		}
	}
	return words
}

// distance counts the letters to insert, remove or change to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func abs(n int) int { return max(n, -n) }
