package edge

import (
	"testing"

	"galgo"
	"galgo/internal/wire"
)

// A node that cannot know whether its view is of the past allows nobody anything by it.
func TestWritesAreNotJudgedByTheStaleView(t *testing.T) {
	r := newRig(t)
	p := r.signedIn()
	p.makeTopic(1)
	r.node.stale.Store(true)
	for operation, body := range map[wire.Operation][]byte{
		wire.OperationSendMessages:         sendBody(t, s0, t0, galgo.ToPartition(0), "a"),
		wire.OperationStoreConsumerOffset:  nil,
		wire.OperationDeleteConsumerOffset: nil,
	} {
		p.wantStatus(p.ask(p.header(operation), body), galgo.CodeTransientNotAccepted)
	}
	r.node.stale.Store(false)
	p.sendTo(0, "a")
}
