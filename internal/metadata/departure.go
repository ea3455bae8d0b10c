package metadata

import (
	"encoding/binary"
	"math"

	"galgo"
	"galgo/internal/wire"
)

// Home is where the connection of a session is: a node, and which of its lives. The zero
// Home is that of a node alone, whose lives are not numbered.
type Home struct {
	Replica uint8
	Life    uint64
}

func (h Home) append(b []byte) []byte { return le.AppendUint64(append(b, h.Replica), h.Life) }

func (r *reader) home() Home { return Home{Replica: r.u8(), Life: r.u64()} }

// key orders homes by replica, then life.
func (h Home) key() string {
	return string(binary.BigEndian.AppendUint64([]byte{h.Replica}, h.Life))
}

// attachedKey orders sessions by home, then slot.
func (c *Client) attachedKey() string {
	return string(binary.BigEndian.AppendUint32([]byte(c.Home.key()), c.Slot))
}

// Departure is the body of OperationDepart: a node, or its lives up to one, is gone, and
// with it the connections of sessions. It names what they were when that was found out: a
// session that has been opened since, there or elsewhere, has another home or a later op.
// SessionsPerDeparture of them are detached; the rest by the next one.
//
//	off  size  field
//	  0     1  version  1
//	  1     1  replica
//	  2     8  life     the latest one that is over
//	 10     8  seen     op up to which sessions were opened
type Departure struct {
	Home
	Seen uint64
}

// Encode returns the body.
func (d Departure) Encode() []byte {
	return le.AppendUint64(d.append([]byte{internalVersion}), d.Seen)
}

// DecodeDeparture reads the body of OperationDepart.
func DecodeDeparture(body []byte) (Departure, error) {
	r := reader{part: "departure body", b: body}
	r.version(internalVersion)
	d := Departure{Home: r.home(), Seen: r.u64()}
	return d, r.end()
}

// onDepart detaches sessions whose connections went with their node.
func (m *Machine) onDepart(in *Input) Output {
	var gone []galgo.ClientID
	for _, c := range m.s.departing(decoded(in, DecodeDeparture)) {
		detached := *c
		detached.Detached = true
		m.s.putClient(&detached)
		gone = append(gone, c.ID)
	}
	m.s.leaveAll(gone...)
	return Output{Body: wire.AppendResultOK(nil)}
}

// departing are the sessions that a departure detaches, by life and slot.
func (s *state) departing(d Departure) (list []*Client) {
	ends := 0
	s.attachedAt(d.Replica, d.Life, func(c *Client) bool {
		if c.Epoch > d.Seen {
			return true
		}
		list = append(list, c)
		ends += s.membershipsOf(c.ID)
		return len(list) < SessionsPerDeparture && ends < SessionsPerDeparture
	})
	return list
}

// attachedAt yields the sessions whose connections are at the lives of a replica up to one.
// Life 0, of a node alone, is before none.
func (s *state) attachedAt(replica uint8, life uint64, f func(*Client) bool) {
	to := Home{replica, life}.key() + "\xff\xff\xff\xff\xff"
	s.attached.between(Home{replica, min(life, 1)}.key(), to, func(_ string, slot uint32) bool {
		c, _ := s.clients.get(slot)
		return f(c)
	})
}

// DepartureOf says what to propose when the lives of a replica up to one are over; false if
// no session has its connection there.
func (v *View) DepartureOf(replica uint8, life uint64) (d Departure, any bool) {
	v.s.attachedAt(replica, life, func(*Client) bool { any = true; return false })
	return Departure{Home{replica, life}, v.s.applied}, any
}

// DepartureOfAll is DepartureOf for all lives of a replica.
func (v *View) DepartureOfAll(replica uint8) (Departure, bool) {
	return v.DepartureOf(replica, math.MaxUint64)
}

// IsAt reports whether the connection of a client's session is at a life of a node.
func (v *View) IsAt(id galgo.ClientID, home Home) bool {
	c, ok := v.s.client(id)
	return ok && !c.Detached && c.Home == home
}

// IsDetached reports whether a session is the client's, and is counted as one that has lost
// its connection.
func (v *View) IsDetached(id galgo.ClientID, session uint64) bool {
	c, ok := v.s.client(id)
	return ok && c.Epoch == session && c.Detached
}

// IsLatest reports whether a session is the client's last one, as of now.
func (v *View) IsLatest(id galgo.ClientID, session uint64) bool {
	c, ok := v.s.client(id)
	return ok && c.Epoch == session
}
