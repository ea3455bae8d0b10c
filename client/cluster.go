package client

import (
	"context"

	"galgo/internal/wire"
)

// What a node tells of its consensus groups.
type (
	// NodeGroups are the groups of a node.
	NodeGroups = wire.NodeGroups
	// GroupStatus is how the node stands in one of them.
	GroupStatus = wire.GroupStatus
	// GroupFlags say what it is there.
	GroupFlags = wire.GroupFlags
	// SteppedDown is what became of a group that a node was to give up.
	SteppedDown = wire.SteppedDown
	// StepDownOutcome is that in one of a few words.
	StepDownOutcome = wire.StepDownOutcome
)

// The flags of a group.
const (
	GroupPrimary      = wire.GroupPrimary
	GroupLed          = wire.GroupLed
	GroupReadable     = wire.GroupReadable
	GroupTransferring = wire.GroupTransferring
)

// StepDownBegun: the node has left the group's view for one that another leads.
const StepDownBegun = wire.StepDownBegun

// Groups asks the node that the client is connected to how it stands in its groups.
func (c *Client) Groups(ctx context.Context) (NodeGroups, error) {
	return query(ctx, c, "groups of the node", wire.CommandGetGroups, nil, wire.DecodeNodeGroups)
}

// StepDown has the node that the client is connected to give up the primaryship of the
// groups that it leads, or of those that are named; group 0 is the metadata.
func (c *Client) StepDown(ctx context.Context, groups ...uint64) ([]SteppedDown, error) {
	asked := []wire.StepDownRequest{{All: true}}
	if len(groups) > 0 {
		asked = nil
		for _, g := range groups {
			asked = append(asked, wire.StepDownRequest{Group: g})
		}
	}
	var all []SteppedDown
	for _, req := range asked {
		reply, err := query(ctx, c, "step down", wire.CommandStepDown, req, wire.DecodeStepDownReply)
		if err != nil {
			return all, err
		}
		all = append(all, reply.Groups...)
	}
	return all, nil
}
