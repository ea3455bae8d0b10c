package shard

import (
	"errors"

	"galgo/internal/disk"
	"galgo/internal/vsr"
)

// courier brings checkpoints of one group to other replicas and takes theirs, off the
// loop (vsr.TransferAction). What a checkpoint is, the owner knows.
type courier struct {
	core  func() *vsr.Core
	touch func()
	gone  func() bool
	exec  Executor
	disk  disk.Disk
	place staging
	note  func(msg string, args ...any)
	// later runs f on the loop after a pause: the disk may have room again then.
	later func(f func())
	// occupied, if set, says that what was gathered last must stay for now.
	occupied func() bool
	// newest finds the newest checkpoint, making one if it is not above op. done runs on
	// the loop; without parts there is none.
	newest func(above vsr.Op, done func(head vsr.Header, p parts))
	// present, if set, adds what this replica has itself to the first stored bytes of an
	// offer. It runs off the loop, one call at a time.
	present func(o vsr.Offer, stored uint64) (more uint64, err error)
	// install makes what was gathered the state. It ends with installed.
	install func(o vsr.Offer, reset bool)

	offered vsr.Offer // last, and what it is made of
	parts   parts
	taken   bool // something may have been gathered
	// gathering is the offer that is gathered now; resumed: a part of it was there. What
	// begins with nothing and ends as something else makes distrust: the next one comes from
	// the peer alone.
	gathering         vsr.Offer
	resumed, distrust bool
	failed            int // in a row, of what is tried again
	// summing: the next offer is being read. summed are the replicas that wait for it.
	summing bool
	summed  []uint8
}

func (c *courier) do(t vsr.Transfer) {
	switch t.Action {
	case vsr.TransferOffer:
		c.offer(t)
	case vsr.TransferRead:
		c.read(t)
	case vsr.TransferBegin:
		c.begin(t.Offer)
	case vsr.TransferWrite:
		c.write(t)
	case vsr.TransferInstall:
		c.seal(t.Offer, t.Reset)
	case vsr.TransferAbandon:
		// What was gathered may serve the next attempt.
	}
}

// run does a job for the core, and tells it the outcome unless the group is gone.
func (c *courier) run(job func() error, done func(error)) {
	c.exec.Go(LaneTransfer, job, func(err error) {
		if !c.gone() {
			done(err)
			c.touch()
		}
	})
}

func (c *courier) offer(t vsr.Transfer) {
	c.newest(t.Offer.Op, func(head vsr.Header, p parts) {
		if c.gone() {
			return
		}
		if p == nil || head.Op <= t.Offer.Op {
			c.core().Offered(t.To, vsr.Offer{})
			c.touch()
			return
		}
		if c.offered.Op == head.Op && c.offered.Identity == head.Identity {
			c.core().Offered(t.To, c.offered)
			c.touch()
			return
		}
		if c.summed = append(c.summed, t.To); !c.summing {
			c.sum(head, p)
		}
	})
}

// sum reads a checkpoint whole, which may take long, and offers it to all who have asked
// meanwhile.
func (c *courier) sum(head vsr.Header, p parts) {
	c.summing = true
	o := vsr.Offer{Op: head.Op, Identity: head.Identity, Timestamp: head.Timestamp, Size: p.size()}
	c.run(func() (err error) {
		r := p.open(c.disk)
		defer r.Close()
		o.Sum, err = sumOf(r, o.Size)
		return err
	}, func(err error) {
		if err != nil {
			c.note("a checkpoint for a peer cannot be read", "group", c.place.name, "op", o.Op, "err", err)
			o = vsr.Offer{}
		} else {
			c.offered, c.parts = o, p
		}
		waiting := c.summed
		c.summing, c.summed = false, nil
		for _, to := range waiting {
			c.core().Offered(to, o)
		}
	})
}

// read serves a piece of the last offer. Of any other there is nothing: who asks starts
// over.
func (c *courier) read(t vsr.Transfer) {
	if t.Offer != c.offered || t.Offset > t.Offer.Size {
		c.core().ChunkRead(t, nil)
		c.touch()
		return
	}
	p := c.parts
	data := make([]byte, min(uint64(t.Length), t.Offer.Size-t.Offset))
	c.run(func() error {
		r := p.open(c.disk)
		defer r.Close()
		_, err := r.ReadAt(data, int64(t.Offset))
		return err
	}, func(err error) {
		if err != nil {
			if !errors.Is(err, disk.ErrNotExist) { // removed since by a purge
				c.note("a checkpoint for a peer cannot be read", "group", c.place.name, "op", t.Offer.Op, "err", err)
			}
			data = nil
		}
		c.core().ChunkRead(t, data)
	})
}

func (c *courier) begin(o vsr.Offer) {
	if c.occupied != nil && c.occupied() {
		c.postpone(func() { c.begin(o) })
		return
	}
	var stored uint64
	c.taken, c.gathering = true, o
	c.run(func() (err error) {
		stored, err = c.place.begin(o)
		return err
	}, func(err error) {
		if err != nil {
			c.again("no place for a checkpoint from a peer", err, func() { c.begin(o) })
			return
		}
		c.failed, c.resumed = 0, stored > 0
		c.gathered(o, stored)
	})
}

// gathered goes on with what this replica has itself, and then has the core ask for what
// comes next.
func (c *courier) gathered(o vsr.Offer, stored uint64) {
	if c.present == nil || c.distrust || o != c.gathering || stored >= o.Size {
		c.core().TransferStored(o, stored)
		return
	}
	var more uint64
	c.run(func() (err error) {
		more, err = c.present(o, stored)
		return err
	}, func(err error) {
		switch {
		case err != nil:
			c.again("a piece of a checkpoint was not written", err, func() { c.gathered(o, stored) })
		case more > stored:
			c.gathered(o, more)
		default:
			c.core().TransferStored(o, stored)
		}
	})
}

func (c *courier) write(t vsr.Transfer) {
	if !c.place.fits(t.Offer, t.Offset, t.Data) {
		c.core().TransferStored(t.Offer, t.Offset)
		c.touch()
		return
	}
	c.run(func() error { return c.place.write(t.Offer, t.Offset, t.Data) }, func(err error) {
		if err != nil {
			c.again("a piece of a checkpoint from a peer was not written", err, func() { c.write(t) })
			return
		}
		c.failed = 0
		c.gathered(t.Offer, t.Offset+uint64(len(t.Data)))
	})
}

func (c *courier) again(what string, err error, f func()) {
	if c.failed++; rare(c.failed) {
		c.note(what+"; it will be tried again", "group", c.place.name, "attempt", c.failed, "err", err)
	}
	c.postpone(f)
}

// postpone does something after a pause, unless the group is gone by then.
func (c *courier) postpone(f func()) {
	c.later(func() {
		if !c.gone() {
			f()
		}
	})
}

// seal verifies what was gathered and has it installed.
func (c *courier) seal(o vsr.Offer, reset bool) {
	c.run(func() error { return c.place.seal(o) }, func(err error) {
		if err != nil {
			c.refuse(o, err)
			return
		}
		c.install(o, reset)
	})
}

// forget removes what was gathered for a group that is gone.
func (c *courier) forget() {
	if !c.taken {
		return
	}
	c.exec.Go(LaneTransfer, c.place.discard, func(err error) {
		if err != nil {
			c.note("what a peer sent was not removed; the next start removes it", "group", c.place.name, "err", err)
		}
	})
}

// refuse throws away what was gathered: nothing was changed yet.
func (c *courier) refuse(o vsr.Offer, why error) {
	c.note("a checkpoint from a peer cannot be used; another will be asked for", "group", c.place.name, "op", o.Op, "err", why)
	c.distrust = !c.resumed
	c.run(c.place.discard, func(error) { c.core().TransferDone(o, false) })
}

// installed tells the core that the checkpoint is the state.
func (c *courier) installed(o vsr.Offer) {
	c.failed, c.distrust = 0, false
	c.core().TransferDone(o, true)
	c.touch()
}
