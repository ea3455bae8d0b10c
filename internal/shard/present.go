package shard

import (
	"galgo/internal/disk"
	"galgo/internal/partition"
	"galgo/internal/vsr"
)

// present adds to what is gathered of a peer's checkpoint what this replica has of it
// already: its segments are the same bytes on every replica, so a node that was away for
// an hour does not fetch a year. Each record is verified, and so is the whole in the end
// (staging.seal), whoever it is from.
type present struct {
	config partition.Config
	spec   GroupSpec
	place  staging

	offer vsr.Offer
	ckpt  *partition.Checkpoint // of the offer; nil until its head has come
	at    int64                 // where the files of segment next begin
	next  int                   // segment that was not looked for yet
}

// add goes on from the first stored bytes of an offer, by a segment at most, and returns
// how many there are then. If there are no more the rest has to come from the peer.
func (p *present) add(o vsr.Offer, stored uint64) (uint64, error) {
	if !p.opened(o, stored) {
		return stored, nil
	}
	for ; p.next < p.ckpt.Segments(); p.next++ {
		size := p.ckpt.SegmentBytes(p.next)
		if p.at > int64(stored) {
			return stored, nil
		}
		if p.at+size > int64(stored) {
			more, err := p.copy(p.next, p.at, int64(stored))
			if err != nil {
				return stored, err
			}
			p.next, p.at = p.next+1, p.at+size
			return uint64(more), nil
		}
		p.at += size
	}
	return stored, nil
}

// opened reports whether the head of an offer is there.
func (p *present) opened(o vsr.Offer, stored uint64) bool {
	if o == p.offer {
		return p.ckpt != nil
	}
	r := p.place.open(vsr.Offer{Size: stored})
	defer r.Close()
	_, c, files, err := decodeTaken(r, p.spec, o)
	if err != nil {
		return false // not all of it yet; or what is wrong with it shows when it is installed
	}
	p.offer, p.ckpt, p.at, p.next = o, c, files, 0
	return true
}

// copy writes what is here of the segment whose files begin at from, but for what is
// gathered already.
func (p *present) copy(segment int, from, stored int64) (more int64, err error) {
	var f disk.File
	if f, err = p.place.disk.Open(p.place.partName()); err != nil {
		return stored, err
	}
	defer f.Close()
	at := from
	err = p.ckpt.Present(p.config, segment, func(b []byte) error {
		begin := at
		at += int64(len(b))
		if at <= stored {
			return nil
		}
		b = b[max(0, stored-begin):]
		if err := f.WriteAt(b, at-int64(len(b))); err != nil {
			return err
		}
		stored = at
		return nil
	})
	return stored, err
}
