package sim

import (
	"fmt"
	"strings"

	"galgo/internal/shard"
	"galgo/internal/vsr"
)

// describe writes a message in one line.
func describe(m *vsr.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v g%d view %d log_view %d commit %d", m.Kind, m.Group, m.View, m.LogView, m.Commit)
	if m.Op > 0 {
		fmt.Fprintf(&b, " op %d %.8v", m.Op, m.Identity)
	}
	if m.Low > 0 {
		fmt.Fprintf(&b, " low %d", m.Low)
	}
	if len(m.Headers) > 0 {
		fmt.Fprintf(&b, " headers %d..%d", m.Headers[0].Op, m.Headers[len(m.Headers)-1].Op)
	}
	if len(m.Refs) > 0 {
		fmt.Fprintf(&b, " wants %d from op %d", len(m.Refs), m.Refs[0].Op)
	}
	if m.Offer.Op > 0 {
		fmt.Fprintf(&b, " checkpoint %d, %d bytes, at %d", m.Offer.Op, m.Offer.Size, m.Offset)
	}
	if m.Doubt > 0 {
		fmt.Fprintf(&b, " doubt %d", m.Doubt)
	}
	return b.String()
}

func statusString(s shard.Status) string {
	return fmt.Sprintf("%v view %d log_view %d head %d commit_min %d commit_max %d", s.Status, s.State.View, s.State.LogView, s.Head, s.CommitMin, s.CommitMax)
}
