package wire

import (
	"slices"
	"strconv"

	"galgo"
)

// Permissions on the wire: ten flags of one byte, then
//
//	u8 has streams; per stream
//	  u32 id, six flags, u8 has topics; per topic
//	    u32 id, four flags, u8 has next topic
//	  u8 has next stream
//
// Any order is accepted and kept. An id that comes twice is refused, since rights
// that contradict each other have no meaning.

// PermissionsMax bounds the encoding of permissions in bytes. The protocol has no bound
// but the largest frame; one that names every topic on its own is no use to anybody, and
// each byte of it takes ten in memory.
const PermissionsMax = 64 << 10

// PermissionsSize is the length of the encoding of p.
func PermissionsSize(p *galgo.Permissions) int {
	n := 11 + 12*len(p.Streams)
	for i := range p.Streams {
		n += 9 * len(p.Streams[i].Topics)
	}
	return n
}

// appendFlags writes one byte for each flag.
func appendFlags(b []byte, flags ...bool) []byte {
	for _, f := range flags {
		b = appendBool(b, f)
	}
	return b
}

// AppendPermissions appends the encoding of p. Galgo's own state is sorted first,
// see galgo.Permissions.Sort.
func AppendPermissions(b []byte, p galgo.Permissions) []byte {
	g := p.Global
	b = appendFlags(b, g.ManageServers, g.ReadServers, g.ManageUsers, g.ReadUsers, g.ManageStreams,
		g.ReadStreams, g.ManageTopics, g.ReadTopics, g.PollMessages, g.SendMessages, len(p.Streams) > 0)
	for i := range p.Streams {
		s := &p.Streams[i]
		b = le.AppendUint32(b, s.StreamID)
		b = appendFlags(b, s.ManageStream, s.ReadStream, s.ManageTopics, s.ReadTopics, s.PollMessages, s.SendMessages, len(s.Topics) > 0)
		for j, t := range s.Topics {
			b = le.AppendUint32(b, t.TopicID)
			b = appendFlags(b, t.ManageTopic, t.ReadTopic, t.PollMessages, t.SendMessages, j+1 < len(s.Topics))
		}
		b = appendBool(b, i+1 < len(p.Streams))
	}
	return b
}

// DecodePermissions reads an encoding; it must use up b.
func DecodePermissions(b []byte) (galgo.Permissions, error) {
	c := read("permissions", b)
	p := c.permissions()
	if err := c.end(); err != nil {
		return galgo.Permissions{}, err
	}
	return p, nil
}

func (c *cursor) permissions() galgo.Permissions {
	p := galgo.Permissions{Global: galgo.GlobalPermissions{
		ManageServers: c.bool("manage servers"), ReadServers: c.bool("read servers"),
		ManageUsers: c.bool("manage users"), ReadUsers: c.bool("read users"),
		ManageStreams: c.bool("manage streams"), ReadStreams: c.bool("read streams"),
		ManageTopics: c.bool("manage topics"), ReadTopics: c.bool("read topics"),
		PollMessages: c.bool("poll messages"), SendMessages: c.bool("send messages"),
	}}
	var ids []uint32
	for more := c.bool("has streams"); more && c.err == nil; more = c.bool("has next stream") {
		p.Streams = append(p.Streams, c.streamPermissions())
		ids = append(ids, p.Streams[len(p.Streams)-1].StreamID)
	}
	c.distinct("stream", ids)
	return p
}

func (c *cursor) streamPermissions() galgo.StreamPermissions {
	s := galgo.StreamPermissions{
		StreamID:     c.u32("stream"),
		ManageStream: c.bool("manage stream"), ReadStream: c.bool("read stream"),
		ManageTopics: c.bool("manage topics"), ReadTopics: c.bool("read topics"),
		PollMessages: c.bool("poll messages"), SendMessages: c.bool("send messages"),
	}
	var ids []uint32
	for more := c.bool("has topics"); more && c.err == nil; more = c.bool("has next topic") {
		t := galgo.TopicPermissions{
			TopicID:     c.u32("topic"),
			ManageTopic: c.bool("manage topic"), ReadTopic: c.bool("read topic"),
			PollMessages: c.bool("poll messages"), SendMessages: c.bool("send messages"),
		}
		s.Topics = append(s.Topics, t)
		ids = append(ids, t.TopicID)
	}
	c.distinct("topic", ids)
	return s
}

func (c *cursor) distinct(field string, ids []uint32) {
	slices.Sort(ids)
	for i := 1; i < len(ids); i++ {
		if ids[i] == ids[i-1] {
			c.fail(field, "permissions for "+strconv.FormatUint(uint64(ids[i]), 10)+" come twice")
		}
	}
}

// appendFlaggedPermissions writes a flag and, if there are permissions, their
// length and encoding.
func appendFlaggedPermissions(b []byte, p *galgo.Permissions) []byte {
	if p == nil {
		return append(b, 0)
	}
	b = le.AppendUint32(append(b, 1), 0)
	start := len(b)
	b = AppendPermissions(b, *p)
	le.PutUint32(b[start-4:], uint32(len(b)-start))
	return b
}

// flaggedPermissions takes a flag other than 1 as absence.
func (c *cursor) flaggedPermissions() *galgo.Permissions {
	if c.u8("permissions flag") != 1 {
		return nil
	}
	return c.sizedPermissions()
}

func (c *cursor) sizedPermissions() *galgo.Permissions {
	at := c.off + 4
	encoded := c.bytes32("permissions")
	if c.err != nil {
		return nil
	}
	if len(encoded) > PermissionsMax {
		c.off = at
		c.fail("permissions", strconv.Itoa(len(encoded))+" bytes, limit "+strconv.Itoa(PermissionsMax)+": give rights on streams instead of single topics")
		return nil
	}
	p, err := DecodePermissions(encoded)
	if err != nil {
		c.off = at
		c.fail("permissions", err.Error())
		return nil
	}
	return &p
}
