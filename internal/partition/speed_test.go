package partition

import (
	"testing"

	"galgo"
)

// speedConfig is the default, but for a disk in memory.
func speedConfig() Config {
	return Config{Group: testGroup, Partition: testPartition, Disk: newDisk(), MessagesToSave: 1 << 20, BytesToSave: 8 << 20, TailBytes: 4 << 20}
}

// TestAllocationsPerBatch: what a batch costs does not grow with its messages.
func TestAllocationsPerBatch(t *testing.T) {
	for _, count := range []int{1, 1000} {
		r := newRig(t, speedConfig())
		ts, op := uint64(startTime), uint64(0)
		const batches = 200
		bodies := make([][]byte, batches+1) // one run more than asked for, to warm up
		for i := range bodies {
			bodies[i] = makeBatch(t, 0, count, 100)
		}
		next := 0
		store := StoreOffset{Kind: galgo.ConsumerSingle, Key: 1, Monotone: true}.Append(nil)
		sends := testing.AllocsPerRun(batches, func() {
			body := bodies[next]
			next++
			ts++
			op++
			base := r.m.Stamp(body, ts)
			r.m.NoteInFlight(galgo.ClientID{1}, op)
			r.m.Apply(Entry{Op: op, Timestamp: ts, Operation: OpSend, Client: galgo.ClientID{1}, Request: op, Numbered: true, Offset: base, Body: body})
			op++
			r.m.Apply(Entry{Op: op, Operation: OpStoreOffset, Body: store})
		})
		if sends > 1 {
			t.Errorf("batches of %d: a send and a store allocate %.1f times, at most 1 on average", count, sends)
		}
		var p Plan
		var reply Reply
		end := r.m.NextOffset()
		polls := testing.AllocsPerRun(100, func() {
			r.m.Poll(PollRequest{Strategy: galgo.FromOffset(end / 2), Count: 3000}, &p)
			if err := p.Read(&reply); err != nil || reply.Count == 0 {
				t.Fatalf("%d messages, %v", reply.Count, err)
			}
		})
		if polls > 0 {
			t.Errorf("batches of %d: a poll from memory allocates %.1f times", count, polls)
		}
		if err := r.write(true); err != nil {
			t.Fatal(err)
		}
		r.m.Trim(0)
		polls = testing.AllocsPerRun(100, func() {
			r.m.Poll(PollRequest{Strategy: galgo.FromOffset(end / 2), Count: 100}, &p)
			if err := p.Read(&reply); err != nil || reply.Count == 0 {
				t.Fatalf("%d messages, %v", reply.Count, err)
			}
		})
		if polls > 12 {
			t.Errorf("batches of %d: a poll from disk allocates %.1f times, at most 12", count, polls)
		}
	}
}

// BenchmarkSend stamps and applies batches of 1000 messages of 1 KiB, and writes
// them to a disk in memory.
func BenchmarkSend(b *testing.B) {
	r := newRig(b, speedConfig())
	body := makeBatch(b, 0, 1000, 1024)
	b.SetBytes(int64(len(body)))
	ts, op := uint64(startTime), uint64(0)
	for b.Loop() {
		ts++
		op++
		base := r.m.Stamp(body, ts) // the same bytes again: they are not read back
		r.m.Apply(Entry{Op: op, Timestamp: ts, Operation: OpSend, Offset: base, Body: body})
		r.m.tail.markWritten(r.m.tail.end())
	}
}

func benchmarkPoll(b *testing.B, onDisk bool) {
	r := newRig(b, speedConfig())
	for range 8 {
		r.send(1000, 1024)
	}
	if onDisk {
		r.must(r.save())
		r.m.Trim(0)
	}
	var p Plan
	var reply Reply
	for b.Loop() {
		r.m.Poll(PollRequest{Strategy: galgo.FromOffset(2500), Count: 1000}, &p)
		if err := p.Read(&reply); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(reply.Bytes))
	}
}

// BenchmarkPollMemory polls 1000 messages of 1 KiB, cut at both ends.
func BenchmarkPollMemory(b *testing.B) { benchmarkPoll(b, false) }

// BenchmarkPollDisk does so from a disk in memory, with every checksum verified.
func BenchmarkPollDisk(b *testing.B) { benchmarkPoll(b, true) }

// BenchmarkPollOne polls a single message of a batch of one, from memory.
func BenchmarkPollOne(b *testing.B) {
	r := newRig(b, speedConfig())
	for range 1000 {
		r.send(1, 100)
	}
	var p Plan
	var reply Reply
	for b.Loop() {
		r.m.Poll(PollRequest{Strategy: galgo.FromOffset(500), Count: 1}, &p)
		if err := p.Read(&reply); err != nil {
			b.Fatal(err)
		}
	}
}
