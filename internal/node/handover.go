package node

import (
	"context"
	"time"

	"galgo/internal/wire"
)

// handOverInterval is how often a node looks for partitions that members which are
// connected here are done with, and other members are to have.
const handOverInterval = 50 * time.Millisecond

// handOver tells whoever leads the metadata of them, until ctx ends. Where this node leads,
// the metadata group looks itself.
func (n *Node) handOver(work context.Context) {
	if n.cluster == nil {
		return
	}
	done := n.engine.Done()
	every(work, handOverInterval, func() {
		if !n.engine.View().IsRevoking() || n.leads() {
			return
		}
		for _, c := range done.Next() {
			if err := n.internal(work, wire.OperationCompleteGroupRevocation, c.Encode()); err != nil {
				n.log.Debug("partitions of a consumer group are not handed over yet", "err", err)
				break
			}
		}
	})
}
