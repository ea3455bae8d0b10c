package cli

import (
	"slices"
	"strings"
	"testing"
)

// A member that names a partition which is not its own is told so: no messages and no
// error would look like an empty partition.
func TestShareOf(t *testing.T) {
	for _, tt := range []struct {
		only, want []uint32
	}{
		{nil, []uint32{1, 3}},
		{[]uint32{3}, []uint32{3}},
		{[]uint32{2}, nil},
	} {
		got, err := shareOf([]uint32{1, 3}, tt.only)
		if !slices.Equal(got, tt.want) {
			t.Errorf("of %v: %v, want %v", tt.only, got, tt.want)
		}
		if refused := err != nil && strings.Contains(err.Error(), "partition 2"); refused != (tt.want == nil) {
			t.Errorf("of %v: %v", tt.only, err)
		}
	}
}
