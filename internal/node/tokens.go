package node

import (
	"context"

	"galgo/internal/metadata"
)

// sweepTokens removes access tokens that have expired, every so often, until ctx ends.
// It is an operation like any other, so that all replicas remove the same ones; of
// several nodes the one that leads sees to it.
func (n *Node) sweepTokens(ctx context.Context) {
	cleaner := n.cfg.Tokens.Cleaner
	if !cleaner.Enabled {
		return
	}
	every(ctx, cleaner.Interval, func() {
		for n.tokenExpired() {
			if err := n.internal(ctx, metadata.OperationSweepTokens, nil); err != nil {
				n.log.Debug("expired access tokens are not removed yet", "err", err)
				break
			}
		}
	})
}

func (n *Node) tokenExpired() bool {
	at, ok := n.engine.View().NextExpiry()
	return ok && at <= wallClock{}.Now() && n.leads()
}

// leads reports whether this node leads the metadata, as one alone does.
func (n *Node) leads() bool {
	if n.cluster == nil {
		return true
	}
	leader, known := n.engine.MetadataLeader()
	return known && leader == n.cluster.self
}
