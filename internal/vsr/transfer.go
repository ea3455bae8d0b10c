package vsr

import "fmt"

// transferStage is how far this replica is with the checkpoint of another.
type transferStage uint8

const (
	transferIdle       transferStage = iota
	transferAsking                   // for an offer
	transferFetching                 // chunk by chunk
	transferInstalling               // the host replaces state and log
)

// transfer is the state of taking a checkpoint (VR Revisited §5.1, §5.2).
type transfer struct {
	stage   transferStage
	source  uint8
	offer   Offer
	stored  uint64 // bytes the host has
	known   bool   // the host has said what it has
	writing bool   // a chunk is on its way to the host's staging place
	reset   bool   // Install begins the log anew
	idle    int    // ticks since the last progress or request
	rounds  int    // requests in a row without progress
}

// TransferAction is what the host does with a checkpoint.
type TransferAction uint8

const (
	// TransferOffer: name a checkpoint above Offer.Op for To, making one if the
	// newest is not above it; answered by Offered.
	TransferOffer TransferAction = iota + 1
	// TransferRead: read Length bytes of Offer at Offset for To; answered by
	// ChunkRead.
	TransferRead
	// TransferBegin: prepare a staging place for Offer; answered by TransferStored
	// with the bytes that are there from an earlier attempt.
	TransferBegin
	// TransferWrite: add Data at Offset to it; answered by TransferStored.
	TransferWrite
	// TransferInstall: verify all of it against Offer.Sum and make it the state.
	// With Reset the log begins anew behind Offer.Op, else what the log holds above
	// stays. Answered by TransferDone when it is durable.
	TransferInstall
	// TransferAbandon: the transfer ended. What is staged may serve a later one.
	TransferAbandon
)

// Transfer asks the host for one step.
type Transfer struct {
	Action TransferAction
	To     uint8
	Offer  Offer
	Offset uint64
	Length uint32
	Data   []byte
	Reset  bool
}

// transferring: the log and the state of this replica may not fit each other. It
// acknowledges nothing, serves nothing, and as a voter it cannot tell (O-9).
func (c *Core) transferring() bool { return c.transfer.stage != transferIdle }

// Transferring reports whether the replica is taking a checkpoint from another.
func (c *Core) Transferring() bool { return c.transferring() }

func (c *Core) beginTransfer(source uint8) {
	if c.transferring() || c.leads() || source == c.cfg.Replica {
		return
	}
	c.transfer = transfer{stage: transferAsking, source: source}
	c.askTransfer()
}

// askTransfer sends the request that is due, again or for the first time.
func (c *Core) askTransfer() {
	t := &c.transfer
	t.idle = 0
	switch {
	case t.stage == transferAsking:
		c.send(&Message{Kind: MessageRequestOffer, To: t.source, Op: c.log.base})
	case t.stage == transferFetching && t.known && !t.writing && t.stored < t.offer.Size:
		length := min(t.offer.Size-t.stored, ChunkMax)
		c.send(&Message{Kind: MessageRequestChunk, To: t.source, Offset: t.stored, Length: uint32(length), Rest: &Rest{Offer: t.offer}})
	}
}

// tickTransfer repeats a request, and gives up on a source that stays silent.
func (c *Core) tickTransfer() {
	t := &c.transfer
	if !c.transferring() || t.stage == transferInstalling || t.writing || t.stage == transferFetching && !t.known {
		return
	}
	if t.idle++; t.idle < c.timing.RepairTicks {
		return
	}
	if t.rounds++; t.rounds >= c.timing.TransferRounds {
		c.abandonTransfer()
		return
	}
	c.askTransfer()
}

// abandonTransfer goes back to repair from another source.
func (c *Core) abandonTransfer() {
	if c.transfer.stage >= transferFetching {
		c.out.Transfer = append(c.out.Transfer, Transfer{Action: TransferAbandon, Offer: c.transfer.offer})
	}
	c.transfer = transfer{}
	if c.target != nil {
		c.target.nextSource(c)
	}
	c.fill() // what came meanwhile had to wait, and nothing else may ever come
	c.advance()
}

// onRequestOffer asks the host for a checkpoint. What is applied is chosen for
// ever, so every replica can serve, in every status.
func (c *Core) onRequestOffer(m *Message) {
	if c.transferring() || c.log.base <= m.Op || c.reads >= readsMax {
		return
	}
	c.reads++
	c.out.Transfer = append(c.out.Transfer, Transfer{Action: TransferOffer, To: m.From, Offer: Offer{Op: m.Op}})
}

// Offered answers TransferOffer; a zero offer means that there is none.
func (c *Core) Offered(to uint8, o Offer) {
	c.reads--
	c.send(&Message{Kind: MessageOffer, To: to, Rest: &Rest{Offer: o}})
}

// onOffer accepts a checkpoint that is ahead of this replica and does not
// contradict the log it wants.
func (c *Core) onOffer(m *Message) {
	t := &c.transfer
	if t.stage != transferAsking || m.From != t.source {
		return
	}
	if m.Offer.Op <= c.log.base || c.contradicts(m.Offer) {
		c.abandonTransfer()
		return
	}
	t.stage, t.offer, t.idle, t.rounds = transferFetching, m.Offer, 0, 0
	c.out.Transfer = append(c.out.Transfer, Transfer{Action: TransferBegin, Offer: m.Offer})
}

// contradicts: the wanted log has something else at the checkpoint, so one of
// the two is of the past.
func (c *Core) contradicts(o Offer) bool {
	if c.target == nil {
		return false
	}
	id, known := c.target.identityAt(o.Op)
	return known && id != o.Identity
}

// onRequestChunk asks the host for a piece of a checkpoint.
func (c *Core) onRequestChunk(m *Message) {
	if m.Length == 0 || m.Length > ChunkMax || m.Offset > m.Offer.Size || uint64(m.Length) > m.Offer.Size-m.Offset || c.reads >= readsMax {
		return
	}
	c.reads++
	c.out.Transfer = append(c.out.Transfer, Transfer{Action: TransferRead, To: m.From, Offer: m.Offer, Offset: m.Offset, Length: m.Length})
}

// ChunkRead answers TransferRead; no data means that the checkpoint is gone.
func (c *Core) ChunkRead(r Transfer, data []byte) {
	c.reads--
	if len(data) > int(r.Length) {
		panic(fmt.Sprintf("vsr: group %d: chunk of %d bytes, %d were asked for", c.cfg.Group, len(data), r.Length))
	}
	c.send(&Message{Kind: MessageChunk, To: r.To, Offset: r.Offset, Rest: &Rest{Offer: r.Offer, Data: data}})
}

// onChunk takes the next piece and no other.
func (c *Core) onChunk(m *Message) {
	t := &c.transfer
	if t.stage != transferFetching || m.From != t.source || m.Offer != t.offer || !t.known || t.writing || m.Offset != t.stored {
		return
	}
	if len(m.Data) == 0 {
		c.abandonTransfer()
		return
	}
	if uint64(len(m.Data)) > t.offer.Size-t.stored {
		return
	}
	t.writing, t.idle, t.rounds = true, 0, 0
	c.out.Transfer = append(c.out.Transfer, Transfer{Action: TransferWrite, Offer: t.offer, Offset: m.Offset, Data: m.Data})
}

// TransferStored says how many bytes of the checkpoint the host has.
func (c *Core) TransferStored(o Offer, stored uint64) {
	t := &c.transfer
	if t.stage != transferFetching || o != t.offer {
		return
	}
	if stored > t.offer.Size || stored < t.stored {
		panic(fmt.Sprintf("vsr: group %d: %d bytes of the checkpoint are stored, %d before, it has %d", c.cfg.Group, stored, t.stored, t.offer.Size))
	}
	t.stored, t.known, t.writing = stored, true, false
	if t.stored < t.offer.Size {
		c.askTransfer()
		return
	}
	c.pumpTransfer()
}

// pumpTransfer has a complete checkpoint installed, once nothing that was handed
// out before is still to be applied.
func (c *Core) pumpTransfer() {
	t := &c.transfer
	if t.stage != transferFetching || !t.known || t.stored < t.offer.Size || c.commitOut > c.log.base {
		return
	}
	if t.offer.Op <= c.log.base || c.contradicts(t.offer) {
		c.abandonTransfer()
		return
	}
	id, here := c.log.identity(t.offer.Op)
	t.reset = !here || id != t.offer.Identity
	t.stage = transferInstalling
	c.out.Transfer = append(c.out.Transfer, Transfer{Action: TransferInstall, Offer: t.offer, Reset: t.reset})
}

// TransferDone says that the checkpoint is the durable state, or that it could
// not be used and nothing was changed.
func (c *Core) TransferDone(o Offer, ok bool) {
	t := c.transfer
	if t.stage != transferInstalling || o != t.offer {
		panic(fmt.Sprintf("vsr: group %d: install of checkpoint %d done in stage %d of checkpoint %d", c.cfg.Group, o.Op, t.stage, t.offer.Op))
	}
	c.transfer = transfer{}
	if ok {
		c.installed(t)
	} else if c.target != nil {
		c.target.nextSource(c)
	}
	c.join()
	c.fill()
	c.finishInstall()
	c.pump()
	c.ack()
	c.advance()
}

// installed makes the checkpoint the new base of the log. Of the log only what
// follows the checkpoint stays: without Reset all of it does.
func (c *Core) installed(t transfer) {
	if c.contradicts(t.offer) {
		c.target = nil
	}
	if c.target != nil {
		c.target.waiting = 0 // what led here is answered
	}
	if t.reset {
		c.out.Append, c.out.Truncate = nil, nil
		c.log.reset(t.offer)
		c.verified = c.log.base
		if c.target != nil && c.target.below > t.offer.Op {
			c.target.joined = false // it met what is gone
		}
	} else {
		c.log.held = max(c.log.held, t.offer.Op)
		c.log.applied(t.offer.Op)
	}
	c.commitOut = c.log.base
	c.commitMax = max(c.commitMax, c.log.base)
	c.verified = max(c.verified, c.log.base)
	c.checkpoint = max(c.checkpoint, c.log.base)
}
