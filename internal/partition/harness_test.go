package partition

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"galgo"
	"galgo/internal/cipher"
	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
	"galgo/internal/wire"
)

const (
	testGroup     = 7
	testPartition = 3
	startTime     = 1_700_000_000_000_000
)

// testVault seals the segments of all rigs while it is set: see sealed.
var testVault *cipher.Vault

// tb is what the rig needs of a test; rapid's has it too.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// smallConfig makes segments and index entries after a few batches.
func smallConfig(d disk.Disk) Config {
	return Config{
		Group: testGroup, Incarnation: 11, Stream: 1, Topic: 2, Partition: testPartition, Disk: d,
		SegmentSize: 4096, MessagesToSave: 8, BytesToSave: 2048, IndexInterval: 1024, TailBytes: 1500,
		Consumers: 8, Producers: 4, ProducerRing: 4, Vault: testVault,
	}
}

// rig drives a machine as the shard would, and keeps the log that the shard
// would keep.
type rig struct {
	t    tb
	cfg  Config
	m    *Machine
	time uint64
	log  []Entry // log[0] is op 1; the host has freed those up to freed
	// checkpoint is the encoded one that is durable; nil if there is none.
	checkpoint []byte
	freed      uint64
	sent       uint64 // messages made so far: payloads differ
}

func newRig(t tb, cfg Config) *rig {
	t.Helper()
	m, err := New(cfg)
	if err != nil {
		t.Fatalf("new machine: %v", err)
	}
	return &rig{t: t, cfg: cfg, m: m, time: startTime}
}

// makeBatch is the batch a producer would send: count messages whose payloads
// start with a number of their own and have size bytes.
func makeBatch(t tb, first uint64, count, size int) []byte {
	t.Helper()
	messages := make([]galgo.Message, count)
	for i := range messages {
		payload := make([]byte, max(size, 8))
		binary.LittleEndian.PutUint64(payload, first+uint64(i))
		messages[i] = galgo.Message{ID: galgo.MessageID{1}, Payload: payload, Timestamp: startTime + uint64(i)}
	}
	b, err := wire.AppendBatch(nil, messages)
	if err != nil {
		t.Fatalf("batch of %d messages: %v", count, err)
	}
	return b
}

// apply gives the operation the next place in the log and applies it.
func (r *rig) apply(e Entry) Result {
	e.Op = r.m.Op() + 1
	r.log = append(r.log, e)
	return r.m.Apply(e)
}

func (r *rig) send(count, size int) Result { return r.sendAs(galgo.ClientID{}, 0, count, size) }

// sendAs sends a numbered batch, or one without number if the client is zero.
func (r *rig) sendAs(client galgo.ClientID, number uint64, count, size int) Result {
	body := makeBatch(r.t, r.sent, count, size)
	r.sent += uint64(count)
	r.time += 10
	base := r.m.Stamp(body, r.time)
	return r.apply(Entry{Timestamp: r.time, Operation: OpSend, Client: client, Request: number, Numbered: !client.IsZero(), Offset: base, Body: body})
}

func (r *rig) store(kind galgo.ConsumerKind, key uint32, offset uint64, monotone bool) galgo.Code {
	return r.apply(Entry{Operation: OpStoreOffset, Body: StoreOffset{Kind: kind, Monotone: monotone, Key: key, Offset: offset}.Append(nil)}).Code
}

func (r *rig) deleteOffset(kind galgo.ConsumerKind, key uint32) galgo.Code {
	return r.apply(Entry{Operation: OpDeleteOffset, Body: DeleteOffset{Kind: kind, Key: key}.Append(nil)}).Code
}

func (r *rig) purge(generation uint64) {
	r.m.NotePurge(generation)
	r.apply(Entry{Operation: OpPurge, Body: AppendPurge(nil, generation)})
}

func (r *rig) truncate(upTo uint64) {
	r.apply(Entry{Operation: OpTruncate, Body: AppendTruncate(nil, upTo)})
}

// write runs the writes that are due, all with force, and the removals.
func (r *rig) write(force bool) error {
	for {
		j := r.m.NextWrite(force)
		if j == nil {
			return r.remove()
		}
		err := j.Run()
		r.m.WriteDone(j, err)
		if err != nil {
			return err
		}
	}
}

// save makes a checkpoint durable, frees the log below it and removes what is due.
func (r *rig) save() error {
	j := r.m.BeginCheckpoint()
	if j == nil {
		r.t.Fatalf("no checkpoint at op %d: a job is in flight, or %v", r.m.Op(), r.m.Err())
	}
	err := j.Run()
	r.m.SyncDone(j, err)
	if err != nil {
		return err
	}
	r.checkpoint = j.Checkpoint().Append(nil)
	r.freed = j.Checkpoint().Op
	r.m.Settled(r.freed)
	return r.remove()
}

func (r *rig) remove() error {
	j := r.m.NextRemove()
	if j == nil {
		return nil
	}
	err := j.Run()
	r.m.RemoveDone(j, err)
	return err
}

// must fails the test on an error.
func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("op %d: %v", r.m.Op(), err)
	}
}

// reopen recovers on d from the durable checkpoint and the log above it.
func (r *rig) reopen(d disk.Disk) error {
	cfg := r.cfg
	cfg.Disk, cfg.Files = d, nil
	c, logFrom := r.recovered()
	m, err := Open(cfg, c, logFrom)
	if err != nil {
		return err
	}
	r.cfg, r.m = cfg, m
	for _, e := range r.log[m.Op():] {
		m.Apply(e)
	}
	return nil
}

// recovered is what the host finds: the checkpoint and where its log starts.
func (r *rig) recovered() (*Checkpoint, uint64) {
	logFrom := uint64(0)
	if r.freed < uint64(len(r.log)) {
		logFrom = r.freed + 1
	}
	if r.checkpoint == nil {
		return nil, logFrom
	}
	c, err := DecodeCheckpoint(r.checkpoint)
	if err != nil {
		r.t.Fatalf("checkpoint: %v", err)
	}
	return c, logFrom
}

// twin is a machine on a disk of its own to which the same log was applied
// without any trouble.
func (r *rig) twin() *rig {
	cfg := r.cfg
	cfg.Disk, cfg.Files = memdisk.New(memdisk.Options{}), nil
	t := newRig(r.t, cfg)
	for _, e := range r.log {
		t.m.Apply(e)
	}
	t.log = r.log
	return t
}

// polled is a message as a client sees it.
type polled struct {
	offset, number uint64
	time           uint64
}

// poll polls and checks all that must hold of any answer.
func (r *rig) poll(s galgo.PollingStrategy, count uint32) []polled {
	r.t.Helper()
	got, err := pollMachine(r.m, PollRequest{Strategy: s, Count: count, Kind: galgo.ConsumerSingle, Key: 1})
	if err != nil {
		r.t.Fatalf("poll %v count %d at op %d: %v", s, count, r.m.Op(), err)
	}
	return got
}

func pollMachine(m *Machine, req PollRequest) ([]polled, error) {
	var p Plan
	if code := m.Poll(req, &p); code != galgo.CodeOK {
		return nil, fmt.Errorf("code %v", code)
	}
	var reply Reply
	if err := p.Read(&reply); err != nil {
		return nil, err
	}
	return decodeReply(&p, &reply, req)
}

// decodeReply reads a reply as a client would.
func decodeReply(p *Plan, r *Reply, req PollRequest) ([]polled, error) {
	records := bytes.Join(r.Chunks, nil)
	if len(records) != r.Bytes {
		return nil, fmt.Errorf("reply says %d bytes, has %d", r.Bytes, len(records))
	}
	var messages []galgo.Message
	for len(records) > 0 {
		b, rest, err := wire.SplitBatch(records)
		if err == nil {
			err = b.Validate()
		}
		if err != nil {
			return nil, err
		}
		if b.PartitionID() != testPartition {
			return nil, fmt.Errorf("record of partition %d", b.PartitionID())
		}
		messages, records = wire.AppendMessages(messages, b), rest
	}
	out := make([]polled, len(messages))
	for i, m := range messages {
		out[i] = polled{m.Offset, binary.LittleEndian.Uint64(m.Payload), m.ServerTimestamp}
	}
	return out, checkReply(p, r, req, out)
}

func checkReply(p *Plan, r *Reply, req PollRequest, got []polled) error {
	if uint32(len(got)) != r.Count || r.Count > req.Count {
		return fmt.Errorf("reply says %d messages, has %d, asked were %d", r.Count, len(got), req.Count)
	}
	if len(got) == 0 {
		return nil
	}
	if got[0].offset != r.First || got[len(got)-1].offset != r.Last || r.Last > p.Current {
		return fmt.Errorf("reply says offsets %d to %d of %d, has %d to %d", r.First, r.Last, p.Current, got[0].offset, got[len(got)-1].offset)
	}
	for i := range got[1:] {
		if got[i+1].offset != got[i].offset+1 {
			return fmt.Errorf("offset %d follows %d", got[i+1].offset, got[i].offset)
		}
	}
	return nil
}

// mustEqual fails unless two rigs answer alike and, after a checkpoint, have the
// same bytes in their checkpoints and files.
func mustEqual(t tb, what string, got, want *rig) {
	t.Helper()
	if a, b := got.m.state().Append(nil), want.m.state().Append(nil); !bytes.Equal(a, b) {
		t.Fatalf("%s: state at op %d differs:\n got %+v\nwant %+v", what, got.m.Op(), got.m.state(), want.m.state())
	}
	mustPollEqual(t, what+", before the checkpoint", got, want)
	got.must(got.save())
	want.must(want.save())
	mustPollEqual(t, what+", after the checkpoint", got, want)
	if a, b := filesOf(t, got), filesOf(t, want); a != b {
		t.Fatalf("%s: files differ:\n got %s\nwant %s", what, a, b)
	}
}

func mustPollEqual(t tb, what string, got, want *rig) {
	t.Helper()
	var strategies []galgo.PollingStrategy
	for o := uint64(0); o <= want.m.next; o += 1 + want.m.next/5 {
		strategies = append(strategies, galgo.FromOffset(o))
	}
	for i := range uint64(4) {
		strategies = append(strategies, galgo.FromTimestamp(startTime+i*(want.m.time-startTime)/3))
	}
	strategies = append(strategies, galgo.FromFirst(), galgo.FromLast(), galgo.FromNext())
	for _, s := range strategies {
		for _, count := range []uint32{3, 1000} {
			a, b := got.poll(s, count), want.poll(s, count)
			if !slices.Equal(a, b) {
				t.Fatalf("%s: poll %v count %d:\n got %v\nwant %v", what, s, count, a, b)
			}
		}
	}
}

// filesOf lists a group's files with their lengths and hashes of their contents.
// Zeros that a preallocated log still has behind its records do not count.
func filesOf(t tb, r *rig) string {
	t.Helper()
	d := r.cfg.Disk.(*memdisk.Disk)
	var out strings.Builder
	for _, name := range d.Names() {
		if !strings.HasPrefix(name, r.m.cfg.Dir+"/") {
			continue
		}
		content := d.Bytes(name)
		if s := r.m.segments; r.cfg.Preallocate && len(s) > 0 && name == s[len(s)-1].logName {
			if end := s[len(s)-1].size; len(bytes.Trim(content[end:], "\x00")) == 0 {
				content = content[:end]
			}
		}
		content = opened(t, r, name, content)
		fmt.Fprintf(&out, "\n  %s %d %x", path.Base(name), len(content), checksumOf(content))
	}
	return out.String()
}

// segmentFiles are the names of all segment files, without directory.
func segmentFiles(d *memdisk.Disk) []string {
	var names []string
	for _, name := range d.Names() {
		if _, ok := ParseSegmentName(path.Base(name)); ok {
			names = append(names, path.Base(name))
		}
	}
	return names
}

func newDisk() *memdisk.Disk { return memdisk.New(memdisk.Options{}) }

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x9a190)) }

// fuzzRig is a rig with something in every table.
func fuzzRig(t tb) (*rig, *memdisk.Disk) {
	d := newDisk()
	r := newRig(t, smallConfig(d))
	for i := range 12 {
		r.sendAs(galgo.ClientID{byte(i%3 + 1)}, uint64(i), 1+i%3, 300)
	}
	r.store(galgo.ConsumerSingle, 4, 2, false)
	r.store(galgo.ConsumerGroup, 1, 5, false)
	r.must(r.save())
	return r, d
}

// reseal gives b the length and the checksum that its other bytes ask for.
func reseal(b []byte) []byte {
	binary.LittleEndian.PutUint64(b[8:], uint64(len(b)))
	end := len(b) - checkpointTrailer
	binary.LittleEndian.PutUint64(b[end:], xxh3.Hash(b[:end]))
	return b
}
