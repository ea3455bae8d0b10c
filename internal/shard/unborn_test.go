package shard

import (
	"testing"

	"galgo/internal/disk/memdisk"
	"galgo/internal/vsr"
)

// sent counts what leaves.
type sent struct{ messages []vsr.Message }

func (s *sent) Send(m vsr.Message) { s.messages = append(s.messages, m) }

// The first primary of a group cannot write that it has begun, for long. What others ask
// it meanwhile is dropped and not kept; then it answers.
func TestNothingIsGatheredBeforeAGroupBegins(t *testing.T) {
	net := &sent{}
	d, exec := newData(t, memdisk.New(memdisk.Options{}), func(c *DataConfig) {
		c.Replication = Replication{Replicas: 3, Replica: 1, Boot: 1, Network: net}
	})
	d.Create(spec(1))
	ask := vsr.Message{Kind: vsr.MessageRequestStartView, From: 2, To: 1, Group: 1, Boot: 1, View: 1, LogView: 0}
	const questions = 1000
	for range questions {
		d.Deliver(ask)
		d.Tick()
	}
	d.Turn()
	if len(net.messages) != 0 {
		t.Fatalf("%d messages have left before it is on the disk that the group has begun", len(net.messages))
	}
	drive(d, exec)
	d.Deliver(ask)
	drive(d, exec)
	if n := len(net.messages); n == 0 || n > 10 {
		t.Errorf("%d messages, want an answer or two", n)
	}
}
