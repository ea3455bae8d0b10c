package wire

import "galgo"

// topicOptionsStateVersion is the format below.
const topicOptionsStateVersion = 1

// AppendState appends everything the options hold, for a snapshot of the state of
// a server. It is no part of the client protocol: the two blocks of a reply do not
// tell the effective value of an option that was updated to its default.
//
//	off  size  field
//	  0     1  version      1
//	  1     1  compression
//	  2     1  flags        bit 0 enforce_fsync, bit 1 preallocate_segments
//	  3     1  reserved     0
//	  4     4  messages required to save
//	  8     8  message expiry
//	 16     8  max topic size
//	 24     8  segment size
//	 32     8  size of messages required to save
//	 40     4  length of the explicit block
//	 44        explicit block, in the order of keys
func (o *TopicOptions) AppendState(b []byte) []byte {
	flags := byte(0)
	if o.EnforceFsync {
		flags |= 1
	}
	if o.PreallocateSegments {
		flags |= 2
	}
	b = append(b, topicOptionsStateVersion, byte(o.Compression), flags, 0)
	b = le.AppendUint32(b, o.MessagesRequiredToSave)
	for _, v := range [...]uint64{o.MessageExpiry, o.MaxTopicSize, o.SegmentSize, o.SizeOfMessagesRequiredToSave} {
		b = le.AppendUint64(b, v)
	}
	return appendBytes32(b, o.AppendExplicit(nil))
}

// DecodeTopicOptionsState reads what AppendState wrote off the front of b and
// returns the rest. It accepts nothing that AppendState would not write.
func DecodeTopicOptionsState(b []byte) (o TopicOptions, rest []byte, err error) {
	c := read("topic options state", b)
	if version := c.u8("version"); version != topicOptionsStateVersion {
		c.fail("version", "unknown version")
	}
	o.Compression = galgo.CompressionAlgorithm(c.u8("compression"))
	if o.Compression != galgo.CompressionNone && o.Compression != galgo.CompressionGzip {
		c.fail("compression", "unknown algorithm")
	}
	flags := c.u8("flags")
	if flags > 3 {
		c.fail("flags", "unknown flag")
	}
	o.EnforceFsync, o.PreallocateSegments = flags&1 != 0, flags&2 != 0
	c.zeros("reserved", 1)
	o.MessagesRequiredToSave = c.u32("messages required to save")
	o.MessageExpiry, o.MaxTopicSize = c.u64("message expiry"), c.u64("max topic size")
	o.SegmentSize, o.SizeOfMessagesRequiredToSave = c.u64("segment size"), c.u64("size of messages required to save")
	c.explicitBlock(&o)
	rest = c.rest()
	if c.err != nil {
		return TopicOptions{}, nil, c.err
	}
	return o, rest, nil
}

func (c *cursor) explicitBlock(o *TopicOptions) {
	entries, err := c.options32("explicit options").Entries()
	if c.err == nil && err != nil {
		c.fail("explicit options", err.Error())
	}
	next := 0
	for _, e := range entries {
		i, ok := optionIndex(string(e.Key.Data))
		if !ok || i < next {
			c.fail("explicit options", "key that is unknown or out of order")
			return
		}
		o.send(i, e.Value)
		next = i + 1
	}
}
