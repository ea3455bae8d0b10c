package wire

// GroupInfo is a consumer group in lists: [u32 id][u32 partitions][u32 members]
// [name].
type GroupInfo struct {
	ID              uint32
	PartitionsCount uint32 // of the topic
	MembersCount    uint32
	Name            string
}

func (g GroupInfo) append(b []byte) []byte {
	b = le.AppendUint32(le.AppendUint32(b, g.ID), g.PartitionsCount)
	return appendBytes8(le.AppendUint32(b, g.MembersCount), g.Name)
}

func (c *cursor) groupInfo() GroupInfo {
	return GroupInfo{
		ID: c.u32("group id"), PartitionsCount: c.u32("partitions"), MembersCount: c.u32("members"), Name: c.name("name"),
	}
}

// AppendGroups appends the groups back to back.
func AppendGroups(b []byte, groups []GroupInfo) []byte {
	for _, g := range groups {
		b = g.append(b)
	}
	return b
}

// DecodeGroups reads groups to the end of the body.
func DecodeGroups(body []byte) ([]GroupInfo, error) {
	return decodeAll(body, "consumer groups", (*cursor).groupInfo)
}

// GroupMember is a member and its partitions: [u32 id][u32 count][u32 partition]*.
type GroupMember struct {
	ID         uint32
	Partitions []uint32
}

// ConsumerGroupDetails answers consumer_group.get and create: the group, with
// MembersCount set to their number, and its members.
type ConsumerGroupDetails struct {
	GroupInfo
	Members []GroupMember
}

// Append appends the body of the reply; MembersCount is the length of Members.
func (d ConsumerGroupDetails) Append(b []byte) []byte {
	d.MembersCount = uint32(len(d.Members))
	b = d.GroupInfo.append(b)
	for _, m := range d.Members {
		b = appendNumbers(le.AppendUint32(b, m.ID), m.Partitions)
	}
	return b
}

// DecodeConsumerGroupDetails reads the body. An empty one means that there is no
// such group; callers look at that first.
func DecodeConsumerGroupDetails(body []byte) (ConsumerGroupDetails, error) {
	c := read("consumer group", body)
	const least = 8
	d := ConsumerGroupDetails{GroupInfo: c.groupInfo()}
	if uint64(d.MembersCount)*least > uint64(c.left()) {
		c.fail("members", "more members than bytes")
	}
	for i := uint32(0); i < d.MembersCount && c.err == nil; i++ {
		d.Members = append(d.Members, GroupMember{ID: c.u32("member id"), Partitions: c.numbers("member partitions")})
	}
	if err := c.end(); err != nil {
		return ConsumerGroupDetails{}, err
	}
	return d, nil
}

// GroupAssignment answers consumer_group.sync: [u64 generation][u32 count]
// [u32 partition]*. An empty body means that the client is not a member.
type GroupAssignment struct {
	Generation uint64
	Partitions []uint32 // that the member may poll now
}

// Append appends the body of the reply.
func (a GroupAssignment) Append(b []byte) []byte {
	return appendNumbers(le.AppendUint64(b, a.Generation), a.Partitions)
}

// DecodeGroupAssignment reads the body; callers look first if it is empty.
func DecodeGroupAssignment(body []byte) (GroupAssignment, error) {
	c := read("group assignment", body)
	a := GroupAssignment{Generation: c.u64("generation"), Partitions: c.numbers("partitions")}
	if err := c.end(); err != nil {
		return GroupAssignment{}, err
	}
	return a, nil
}

func appendNumbers(b []byte, numbers []uint32) []byte {
	b = le.AppendUint32(b, uint32(len(numbers)))
	for _, n := range numbers {
		b = le.AppendUint32(b, n)
	}
	return b
}

// numbers reads a count and numbers of 32 bits; nil if there are none.
func (c *cursor) numbers(field string) []uint32 {
	n := c.count(field, 4)
	if n == 0 {
		return nil
	}
	numbers := make([]uint32, n)
	for i := range numbers {
		numbers[i] = c.u32(field)
	}
	return numbers
}
