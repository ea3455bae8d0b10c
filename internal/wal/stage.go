package wal

import (
	"fmt"

	"github.com/zeebo/xxh3"

	"galgo/internal/vsr"
)

// stage checks that each record continues its group, counting those before it in
// the batch. What would not be read back is not written: it would only be found
// when it is too late.
func (l *Log) stage(recs []Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range recs {
		r := &recs[i]
		if r.Kind > KindReset { // of our own making
			continue
		}
		g := l.groups[r.Group]
		if g == nil {
			g = &group{id: r.Group}
			l.groups[r.Group] = g
		}
		switch r.Kind {
		case KindPrepare:
			l.stagePrepare(g, r)
		case KindTruncate:
			l.stageCut(g, r.Op, recs[:i])
		case KindReset:
			l.stageReset(g, r.Header)
		case KindState:
			if len(r.State) > StateMax {
				panic(fmt.Sprintf("wal: state of group %d has %d bytes, limit %d", g.id, len(r.State), StateMax))
			}
		}
	}
}

// unstage takes back what stage did, for a batch that was refused.
func (l *Log) unstage(recs []Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range recs {
		if g := l.groups[recs[i].Group]; g != nil {
			g.settle()
		}
	}
}

func (l *Log) stagePrepare(g *group, r *Record) {
	h := r.Header
	l.mustBelong(g, h)
	if err := extends(h, g.head, g.headID); err != nil {
		panic(fmt.Sprintf("wal: write group %d: %v", g.id, err))
	}
	if len(r.Body) != int(h.Size) || xxh3.Hash128(r.Body).Bytes() != h.BodySum {
		panic(fmt.Sprintf("wal: write op %d of group %d with a body of %d bytes that is not the sealed one of %d", h.Op, g.id, len(r.Body), h.Size))
	}
	g.head, g.headID = h.Op, h.Identity
}

func (l *Log) stageCut(g *group, op vsr.Op, before []Record) {
	if op < g.base || op > g.head {
		panic(fmt.Sprintf("wal: truncate group %d to op %d of %d..%d", g.id, op, g.base, g.head))
	}
	g.head, g.headID = op, l.stagedIdentity(g, op, before)
}

func (l *Log) stageReset(g *group, h *vsr.Header) {
	l.mustBelong(g, h)
	if h.Op == 0 || h.Op < g.base {
		panic(fmt.Sprintf("wal: reset group %d to op %d, below %d", g.id, h.Op, g.base))
	}
	g.head, g.headID = h.Op, h.Identity
}

// mustBelong checks a header apart from its place in the log, as Open will. The
// hashes are compared here because vsr's own checks allocate.
func (l *Log) mustBelong(g *group, h *vsr.Header) {
	if h.Group != g.id || h.Cluster != l.o.Cluster {
		panic(fmt.Sprintf("wal: write op %d of group %d, cluster %x, as group %d, cluster %x", h.Op, h.Group, h.Cluster, g.id, l.o.Cluster))
	}
	var b [vsr.HeaderSize]byte
	h.PutHeader(b[:])
	if xxh3.Hash128(b[16:]).Bytes() != h.Identity {
		panic(fmt.Sprintf("wal: write op %d of group %d, which was changed after it was sealed", h.Op, g.id))
	}
}

// stagedIdentity returns that of an op up to head: the newest in the batch, or
// the published one.
func (l *Log) stagedIdentity(g *group, op vsr.Op, before []Record) vsr.Identity {
	for i := len(before) - 1; i >= 0; i-- {
		h := before[i].Header
		if h != nil && before[i].Group == g.id && h.Op == op {
			return h.Identity
		}
	}
	id, _ := g.identity(op)
	return id
}
