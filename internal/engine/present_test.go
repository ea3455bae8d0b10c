package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/disk/memdisk"
	"galgo/internal/wire"
)

// A node that is behind fetches what it lacks. What it has of a checkpoint is used, if it
// verifies; what does not, or is something else after all, comes from a peer.
func TestWhatIsHereIsNotFetched(t *testing.T) {
	const size, before, after = 64 << 10, 80, 4
	for name, c := range map[string]struct {
		harm        func(d *memdisk.Disk, first string)
		least, most int // bytes that come from peers
	}{
		"all of it is sound": {func(*memdisk.Disk, string) {}, after * size, (after + 8) * size},
		"a record has rotted": {func(d *memdisk.Disk, first string) {
			b := d.Bytes(first)
			b[len(b)/2] ^= 1
			d.Put(first, b)
		}, after * size, (after + 8 + 16) * size},
		"a sound record is another": {func(d *memdisk.Disk, first string) {
			b := d.Bytes(first)
			other := wire.Batch(batchOf(strings.Repeat("y", size)))
			at := 8 * len(other) // behind the first piece, which always comes from the peer
			was := wire.Batch(b[at:])
			other.Stamp(was.PartitionID(), was.BaseOffset(), was.BaseTimestamp())
			copy(b[at:], other)
			d.Put(first, b)
		}, (before + after) * size, (before + 2*after + 8) * size},
	} {
		t.Run(name, func(t *testing.T) {
			n := newCluster(t, 3, worldConfig())
			admin, group := n.begin()
			options, err := wire.NewOptions([]galgo.Header{{Key: galgo.StringValue(galgo.OptionSegmentSize), Value: galgo.Uint64Value(1 << 20)}})
			if err != nil {
				t.Fatal(err)
			}
			n.call(admin, wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: galgo.NamedID("s"), Name: "t", Partitions: 1, Options: options}.Append(nil))
			g := group("t", 0)
			var want []string
			send := func(count int) {
				for range count {
					want = append(want, strings.Repeat(string(rune('a'+len(want)%20)), size))
					n.send(g, want[len(want)-1])
				}
			}
			send(before)
			n.all(g, before)
			n.checkpoints()
			n.kill(2)
			c.harm(n.disks[2], fmt.Sprintf("groups/%020d/%020d.log", g, 0))
			send(after)
			n.checkpoints()
			n.start(2, false)
			n.all(g, before+after)
			if got := n.everything(2, g); !slices.Equal(got, want) {
				t.Errorf("node 2 has %d messages, not the %d that were sent", len(got), len(want))
			}
			if n.bytes < c.least || n.bytes > c.most {
				t.Errorf("%d KiB came from peers, want %d to %d", n.bytes>>10, c.least>>10, c.most>>10)
			}
		})
	}
}
