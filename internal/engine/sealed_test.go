package engine

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"galgo"
	"galgo/internal/cipher"
	"galgo/internal/cipher/ciphertest"
	"galgo/internal/disk/memdisk"
	"galgo/internal/edge"
	"galgo/internal/metadata"
	"galgo/internal/partition"
	"galgo/internal/superblock"
	"galgo/internal/wire"
)

// everyCall has the tests of sealed nodes try each call of the disk, as those of nodes in
// the clear do, and not one in seven.
var everyCall = flag.Bool("sealed-each-call", false, "try each call of the disk with a sealed node, too")

// sealed has the disks of all nodes of the test sealed; of a cluster, each under a key of
// its own, but for the second, which is in the clear.
func sealed(t testing.TB) {
	worldKeys = ciphertest.Ring(1)
	if !*everyCall {
		stride = 7
	}
	t.Cleanup(func() { worldKeys, stride = nil, 1 })
}

// keysOf are those of a node of a cluster.
func keysOf(i int) *cipher.Ring {
	if worldKeys == nil || i == 1 {
		return nil
	}
	return ciphertest.Ring(byte(10 + i))
}

// openedLog is a file of a group as it is on a node in the clear.
func openedLog(t *testing.T, d *memdisk.Disk, ring *cipher.Ring, name string, b []byte) []byte {
	t.Helper()
	id, err := superblock.DecodeIdentity(d.Bytes(superblock.IdentityName))
	if err != nil {
		t.Fatal(err)
	}
	var group uint64
	fmt.Sscanf(name, "groups/%d/", &group)
	if b, err = partition.OpenLog(b, group, name, ring.Vault(id.Node)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b
}

// What holds of nodes holds of those whose disks are sealed: a crash at each call of the
// disk, each fault of it, a flipped bit, random lives.
func TestSealedNode(t *testing.T) {
	sealed(t)
	for name, test := range map[string]func(*testing.T){
		"power loss": TestPowerLossAtEachDiskCall, "kill": TestKillAtEachDiskCall, "faults": TestEachFaultIsSurvivedOrNamed,
		"flipped bit": TestFlippedBitIsHarmlessOrNamed, "random lives": TestRandomLives, "checkpoint that fails": TestMetadataCheckpointThatFails,
		"starts": TestStartsThatMustWork, "segments ahead": TestSegmentsAheadOfAnOlderLogAreNotCut,
	} {
		t.Run(name, test)
	}
}

// Checkpoints travel between nodes that seal under different keys, and one that does not.
func TestSealedAndClearNodesTogether(t *testing.T) {
	sealed(t)
	for name, test := range map[string]func(*testing.T){
		"replicate": TestThreeNodesReplicate, "far behind": TestNodeFarBehindTakesCheckpoints, "cut": TestTransferCutAtEachDiskCall,
		"source dies": TestSourceOfATransferDies, "purge": TestPurgeDuringATransfer, "power loss": TestPowerLossOfAllNodes,
		"same offers": TestOffersStayTheSame, "snapshot": TestSnapshotMakesAndRemovesGroups, "checkpoints": TestCheckpointsDuringATransfer,
		"equal files": TestFilesAreEqualOnAllNodes, "close": TestCloseDuringATransfer, "next": TestNextTransferWaitsForTheTable,
	} {
		t.Run(name, test)
	}
}

// theirSecrets are what users have told a node that lived through secretLife.
var theirSecrets = []string{
	"a stream of secrets", "a topic of secrets", "a group of secrets", "a root of secrets", "$argon2id$a hash of secrets", "a message of secrets",
	"a late message of secrets", "whose client it is", // 16 bytes and more of it are cut
}

// secretLife has a node take all kinds of what users say, before a checkpoint and after.
func secretLife(t *testing.T, w *world) {
	t.Helper()
	body, err := metadata.Bootstrap{Username: theirSecrets[3], PasswordHash: theirSecrets[4], Settings: metadata.Settings{ClientsMax: 64}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := w.metadata(edge.MetadataRequest{Operation: metadata.OperationBootstrap, Body: body}); !ok {
		t.Fatal("no bootstrap")
	}
	admin, ok := w.login(galgo.ClientID([]byte(theirSecrets[7])[:16]))
	c := &cast{admin: admin}
	stream, topic := galgo.NamedID(theirSecrets[0]), galgo.NamedID(theirSecrets[1])
	ok = ok && c.call(w, wire.OperationCreateStream, wire.CreateStreamRequest{Name: theirSecrets[0]}.Append(nil)) &&
		c.call(w, wire.OperationCreateTopic, wire.CreateTopicRequest{Stream: stream, Partitions: 1, Name: theirSecrets[1]}.Append(nil)) &&
		c.call(w, wire.OperationCreateConsumerGroup, wire.CreateGroupRequest{Stream: stream, Topic: topic, Name: theirSecrets[2]}.Append(nil))
	if !ok {
		t.Fatal("no topic")
	}
	group := w.group(theirSecrets[0], theirSecrets[1], 0)
	for _, text := range theirSecrets[5:7] {
		for i := range 3 {
			if r, ok := w.send(group, admin.id, uint64(i+1), text+strings.Repeat(".", 500)); !ok || r.Code != galgo.CodeOK {
				t.Fatalf("send: %v", r.Code)
			}
			admin.id[15]++ // numbered sends of others
		}
		if _, ok := w.storeOffset(group, 1, 2); !ok || !w.checkpoint() {
			t.Fatal("no checkpoint")
		}
	}
	if r, ok := w.send(group, galgo.ClientID{}, 0, theirSecrets[6]); !ok || r.Code != galgo.CodeOK {
		t.Fatalf("send: %v", r.Code)
	}
}

// found lists the secrets that stand in any file of a disk, and where.
func found(d *memdisk.Disk) map[string]string {
	at := map[string]string{}
	for name, b := range d.Files() {
		for _, secret := range theirSecrets {
			if bytes.Contains(b, []byte(secret)[:min(len(secret), 15)]) {
				at[secret] += name + " "
			}
		}
	}
	return at
}

// No message, name, hash or client stands in any file of a sealed directory, byte by byte:
// not while the node runs, not after a stop, a kill and another start. In a directory in
// the clear each of them does.
func TestSealedDirectoryTellsNothing(t *testing.T) {
	live := func() (*memdisk.Disk, *world) {
		d := healthy()
		w, err := open(t, d, worldConfig(), 1, 1_000_000)
		if err != nil {
			t.Fatal(err)
		}
		secretLife(t, w)
		return d, w
	}
	clear, _ := live()
	if at := found(clear); len(at) != len(theirSecrets) {
		t.Fatalf("in the clear: %v", at)
	}
	sealed(t)
	d, w := live()
	killed := d.Kill()
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, killed, worldConfig(), 2, 2_000_000); err != nil {
		t.Fatal(err)
	}
	for _, d := range []*memdisk.Disk{d, killed} {
		if at := found(d); len(at) > 0 {
			t.Errorf("sealed, and told all the same: %v", at)
		}
		if files := d.Files(); len(filesOf(d, "groups", ".log")) == 0 || len(filesOf(d, "metadata/snapshot", ".snap")) == 0 {
			t.Errorf("there is nothing to look at in %d files", len(files))
		}
	}
}

// A checkpoint that a node gathers from another is sealed from the first byte on, also
// while it comes.
func TestSealedTransferTellsNothing(t *testing.T) {
	const secret = "a message of secrets that travels"
	staged := func() (told bool, gathered int) {
		c, admin, g := topicOf(t)
		c.call(admin, wire.OperationCreateStream, wire.CreateStreamRequest{Name: secret}.Append(nil))
		c.lose(2)
		for range 300 {
			c.send(g, secret+strings.Repeat(".", 1000))
		}
		c.checkpoints()
		c.start(2, true)
		for i := 0; i < 300; i++ {
			if !c.pass() {
				c.tick()
			}
			for name, b := range c.disks[2].Files() {
				if !strings.Contains(name, "transfer") && !strings.Contains(name, "snapshot") {
					continue // of which another test looks at each
				}
				if strings.HasSuffix(name, ".part") {
					gathered = max(gathered, len(b))
				}
				told = told || bytes.Contains(b, []byte(secret))
			}
		}
		c.all(g, 300)
		return told, gathered
	}
	if told, gathered := staged(); !told || gathered < 1000 {
		t.Fatalf("in the clear nothing is told of %d bytes", gathered)
	}
	sealed(t)
	if told, gathered := staged(); told || gathered < 1000 {
		t.Errorf("told %v, of %d bytes", told, gathered)
	}
}

// After a life a directory is refused without its key, with another, and one in the clear
// with a key. Nothing is changed.
func TestSealedDirectoryRefusals(t *testing.T) {
	for _, c := range []struct {
		name       string
		made, with *cipher.Ring
		want       error
		says       string
	}{
		{"no key", ciphertest.Ring(1), nil, cipher.ErrKeyMissing, "system.encryption.enabled"},
		{"another key", ciphertest.Ring(1), ciphertest.Ring(2), cipher.ErrKeyUnknown, "system.encryption.older_keys"},
		{"a key for what is clear", nil, ciphertest.Ring(1), cipher.ErrClear, "into an empty directory"},
	} {
		worldKeys = c.made
		d := rested(t)
		worldKeys = c.with
		refuses(t, d, c.want, []string{c.says, superblock.IdentityName})
		worldKeys = nil
	}
}

// A key is changed by a start with the new one before the old one. The old one is needed
// until nothing is sealed under it any more; a start without it says so by a file, before
// anything in it is changed.
func TestKeyIsChanged(t *testing.T) {
	defer func() { worldKeys = nil }()
	d := healthy()
	start := func(fills ...byte) (*world, error) {
		worldKeys = ciphertest.Ring(fills...)
		return open(t, d, worldConfig(), 1, 1_000_000)
	}
	w, err := start(1)
	if err != nil {
		t.Fatal(err)
	}
	perform(w)
	want, err := w.observe()
	if err != nil || w.close() != nil {
		t.Fatal(err)
	}
	if w, err = start(2, 1); err != nil {
		t.Fatal(err)
	}
	if got, err := w.observe(); err != nil || got != want {
		t.Fatalf("after the change: %v\n%s\nwant\n%s", err, got, want)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	before := d.Clone()
	if _, err := start(2); !errors.Is(err, cipher.ErrKeyUnknown) || !strings.Contains(err.Error(), "older_keys") {
		t.Errorf("without the old key: %v", err)
	}
	if diff := memdisk.Diff(before, d); diff != "" {
		t.Errorf("the refusal changed the disk: %s", diff)
	}
	if w, err = start(3, 2, 1); err != nil {
		t.Fatal(err)
	}
	if got, err := w.observe(); err != nil || got != want {
		t.Errorf("after the second change: %v\n%s\nwant\n%s", err, got, want)
	}
}

// A superblock whose write has failed may name a snapshot all the same. A sealed one is
// therefore not written again at its op, with other bytes: the next start would find a
// snapshot that is not the one that is named.
func TestSealedSnapshotIsNotWrittenAgain(t *testing.T) {
	sealed(t)
	d := healthy()
	w, err := open(t, d, worldConfig(), 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	createLongStreams(t, w, 0, 20)
	checkpoint := func() (outcome error) {
		w.run(func(done func()) {
			w.loops[0].Post(func() { w.engine.meta.Checkpoint(func(err error) { outcome = err; done() }) })
		})
		return outcome
	}
	d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpSyncDir, Match: func(name string) bool { return name == "metadata" }})
	if err := checkpoint(); err == nil || d.Fired() != 1 {
		t.Fatalf("the superblock was written: %v", err)
	}
	d.Inject(memdisk.Fault{Class: memdisk.Fail, Ops: memdisk.OpCreate, Match: func(name string) bool { return strings.Contains(name, "superblock") }})
	if err := checkpoint(); err == nil {
		t.Fatal("the second checkpoint succeeded")
	}
	if _, err := open(t, d.Kill(), worldConfig(), 2, 2_000_000); err != nil {
		t.Error(err)
	}
}
