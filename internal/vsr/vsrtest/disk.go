package vsrtest

import (
	"crypto/sha256"
	"fmt"

	"galgo/internal/vsr"
)

// disk is what a replica keeps over a crash: the log above a checkpoint, the
// state record and the checkpoint itself.
type disk struct {
	formatted  bool
	state      vsr.State
	checkpoint checkpoint
	log        []*vsr.Prepare // the ops checkpoint.op+1.. in order
	freed      vsr.Op         // ops up to here are not in the log any more
	staged     []byte         // of a checkpoint that is being taken
	stagedOf   vsr.Offer
}

// checkpoint is the state of a machine whose state is the identities of all it
// applied.
type checkpoint struct {
	op        vsr.Op
	timestamp uint64
	history   []vsr.Identity
}

func (c checkpoint) identity() vsr.Identity {
	if c.op == 0 {
		return vsr.Identity{}
	}
	return c.history[c.op-1]
}

func (c checkpoint) bytes() []byte {
	b := make([]byte, 0, 16*len(c.history))
	for _, id := range c.history {
		b = append(b, id[:]...)
	}
	return b
}

func (c checkpoint) offer() vsr.Offer {
	b := c.bytes()
	return vsr.Offer{Op: c.op, Identity: c.identity(), Timestamp: c.timestamp, Sum: sumOf(b), Size: uint64(len(b))}
}

func sumOf(b []byte) [16]byte {
	full := sha256.Sum256(b)
	return [16]byte(full[:16])
}

func parse(o vsr.Offer, b []byte) (checkpoint, bool) {
	if uint64(len(b)) != o.Size || sumOf(b) != o.Sum {
		return checkpoint{}, false
	}
	c := checkpoint{op: o.Op, timestamp: o.Timestamp}
	for ; len(b) > 0; b = b[16:] {
		c.history = append(c.history, vsr.Identity(b[:16]))
	}
	return c, true
}

// write is work for the disk that is not durable yet.
type write struct {
	append   *vsr.Prepare
	truncate *vsr.Op
	persist  *vsr.State
}

func (w write) String() string {
	switch {
	case w.append != nil:
		return fmt.Sprintf("append %d:%s", w.append.Op, w.append.Body)
	case w.truncate != nil:
		return fmt.Sprintf("truncate to %d", *w.truncate)
	default:
		return "persist " + stateString(*w.persist)
	}
}

func (d *disk) head() vsr.Op { return d.first() - 1 + vsr.Op(len(d.log)) }

// first is the op of log[0].
func (d *disk) first() vsr.Op { return d.freed + 1 }

func (d *disk) headIdentity() vsr.Identity {
	if len(d.log) == 0 {
		return d.checkpoint.identity()
	}
	return d.log[len(d.log)-1].Identity
}

// at returns the prepare at op, nil if it is not in the log.
func (d *disk) at(op vsr.Op) *vsr.Prepare {
	if op < d.first() || op > d.head() {
		return nil
	}
	return d.log[op-d.first()]
}

// perform makes a write durable. It returns what a log would refuse.
func (d *disk) perform(w write) error {
	switch {
	case w.append != nil:
		if w.append.Op != d.head()+1 || w.append.Parent != d.headIdentity() {
			return fmt.Errorf("append of op %d with parent %v behind op %d, %v", w.append.Op, w.append.Parent, d.head(), d.headIdentity())
		}
		d.log = append(d.log, w.append)
	case w.truncate != nil:
		if *w.truncate < d.freed || *w.truncate < d.checkpoint.op {
			return fmt.Errorf("truncation to op %d below the checkpoint %d", *w.truncate, d.checkpoint.op)
		}
		if *w.truncate < d.head() {
			d.log = d.log[: *w.truncate-d.freed : *w.truncate-d.freed]
		}
	case w.persist != nil:
		d.state = *w.persist
	}
	return nil
}

// recovered is what a host reads before it starts the core, having applied what
// is known to be committed.
func (d *disk) recovered(replicas int) (vsr.Recovered, []vsr.Identity) {
	seen := d.checkpoint.op
	for _, p := range d.log {
		seen = max(seen, p.Commit)
	}
	commit := vsr.QuorumsOf(replicas).CommittedAtLeast(d.head(), seen, d.checkpoint.op)
	r := vsr.Recovered{
		Fresh: !d.formatted, State: d.state, Head: d.head(), HeadIdentity: d.headIdentity(), HeadTimestamp: d.checkpoint.timestamp,
		Commit: commit, Checkpoint: d.freed,
	}
	history := append([]vsr.Identity(nil), d.checkpoint.history...)
	for op := d.checkpoint.op + 1; op <= d.head(); op++ {
		p := d.at(op)
		if op <= commit {
			history = append(history, p.Identity)
		} else {
			r.Suffix = append(r.Suffix, p.Header)
		}
		r.HeadTimestamp = max(r.HeadTimestamp, p.Timestamp)
	}
	return r, history
}
