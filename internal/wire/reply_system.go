package wire

import (
	"galgo"
)

// The reply bodies below are what is behind the result section, if there is one:
// ParseReply has taken it off, AppendResultOK puts it on.

// RegisterReply answers a sign-in: [u32 user][u64 session][u32 version][name].
type RegisterReply struct {
	UserID        uint32
	Session       uint64 // above 0, to be sent in every header from now on
	Protocol      Version
	ServerVersion string // 1..255 bytes
}

// Append appends the payload of the reply.
func (r RegisterReply) Append(b []byte) []byte {
	b = le.AppendUint32(b, r.UserID)
	b = le.AppendUint64(b, r.Session)
	b = le.AppendUint32(b, uint32(r.Protocol))
	return appendBytes8(b, r.ServerVersion)
}

// DecodeRegisterReply reads the payload; a session of 0 is refused.
func DecodeRegisterReply(body []byte) (RegisterReply, error) {
	c := read("sign-in reply", body)
	r := RegisterReply{UserID: c.u32("user"), Session: c.u64("session")}
	if c.err == nil && r.Session == 0 {
		c.fail("session", "session 0")
	}
	r.Protocol = Version(c.u32("protocol version"))
	r.ServerVersion = c.name("server version")
	if err := c.end(); err != nil {
		return RegisterReply{}, err
	}
	return r, nil
}

// CacheMetric is the cache of a partition; galgo sends none.
type CacheMetric struct {
	StreamID    uint32
	TopicID     uint32
	PartitionID uint32
	Hits        uint64
	Misses      uint64
	HitRatio    float32
}

const cacheMetricSize = 32

// Stats answers the stats command. Sizes are bytes, times µs, usages percent.
type Stats struct {
	ProcessID           uint32
	CPUUsage            float32
	TotalCPUUsage       float32
	MemoryUsage         uint64
	TotalMemory         uint64
	AvailableMemory     uint64
	RunTime             uint64
	StartTime           uint64
	ReadBytes           uint64
	WrittenBytes        uint64
	MessagesSize        uint64
	StreamsCount        uint32
	TopicsCount         uint32
	PartitionsCount     uint32
	SegmentsCount       uint32
	MessagesCount       uint64
	ClientsCount        uint32
	ConsumerGroupsCount uint32
	Hostname            string
	OSName              string
	OSVersion           string
	KernelVersion       string
	ServerVersion       string
	ServerSemver        uint32 // see Semver; 0 is unknown
	CacheMetrics        []CacheMetric
	ThreadsCount        uint32
	FreeDiskSpace       uint64
	TotalDiskSpace      uint64
}

// Semver is a server's version as Stats has it: three decimal digits each for minor
// and patch.
func Semver(major, minor, patch uint32) uint32 { return major*1_000_000 + minor*1000 + patch }

// Append appends the body of the reply.
func (s Stats) Append(b []byte) []byte {
	b = le.AppendUint32(b, s.ProcessID)
	b = appendF32(appendF32(b, s.CPUUsage), s.TotalCPUUsage)
	for _, v := range [...]uint64{s.MemoryUsage, s.TotalMemory, s.AvailableMemory, s.RunTime, s.StartTime, s.ReadBytes, s.WrittenBytes, s.MessagesSize} {
		b = le.AppendUint64(b, v)
	}
	for _, v := range [...]uint32{s.StreamsCount, s.TopicsCount, s.PartitionsCount, s.SegmentsCount} {
		b = le.AppendUint32(b, v)
	}
	b = le.AppendUint64(b, s.MessagesCount)
	b = le.AppendUint32(b, s.ClientsCount)
	b = le.AppendUint32(b, s.ConsumerGroupsCount)
	for _, v := range [...]string{s.Hostname, s.OSName, s.OSVersion, s.KernelVersion, s.ServerVersion} {
		b = appendBytes32(b, v)
	}
	b = le.AppendUint32(b, s.ServerSemver)
	b = le.AppendUint32(b, uint32(len(s.CacheMetrics)))
	for _, m := range s.CacheMetrics {
		b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, m.StreamID), m.TopicID), m.PartitionID)
		b = appendF32(le.AppendUint64(le.AppendUint64(b, m.Hits), m.Misses), m.HitRatio)
	}
	b = le.AppendUint32(b, s.ThreadsCount)
	return le.AppendUint64(le.AppendUint64(b, s.FreeDiskSpace), s.TotalDiskSpace)
}

// DecodeStats reads the body.
func DecodeStats(body []byte) (Stats, error) {
	c := read("stats", body)
	s := Stats{
		ProcessID: c.u32("process id"), CPUUsage: c.f32("cpu usage"), TotalCPUUsage: c.f32("total cpu usage"),
		MemoryUsage: c.u64("memory"), TotalMemory: c.u64("total memory"), AvailableMemory: c.u64("available memory"),
		RunTime: c.u64("run time"), StartTime: c.u64("start time"),
		ReadBytes: c.u64("read bytes"), WrittenBytes: c.u64("written bytes"), MessagesSize: c.u64("messages size"),
		StreamsCount: c.u32("streams"), TopicsCount: c.u32("topics"),
		PartitionsCount: c.u32("partitions"), SegmentsCount: c.u32("segments"),
		MessagesCount: c.u64("messages"), ClientsCount: c.u32("clients"), ConsumerGroupsCount: c.u32("consumer groups"),
		Hostname: c.string32("hostname"), OSName: c.string32("os name"), OSVersion: c.string32("os version"),
		KernelVersion: c.string32("kernel version"), ServerVersion: c.string32("server version"),
		ServerSemver: c.u32("server semver"),
	}
	for range c.count("cache metrics", cacheMetricSize) {
		s.CacheMetrics = append(s.CacheMetrics, CacheMetric{
			StreamID: c.u32("stream"), TopicID: c.u32("topic"), PartitionID: c.u32("partition"),
			Hits: c.u64("hits"), Misses: c.u64("misses"), HitRatio: c.f32("hit ratio"),
		})
	}
	s.ThreadsCount = c.u32("threads")
	s.FreeDiskSpace, s.TotalDiskSpace = c.u64("free disk"), c.u64("total disk")
	if err := c.end(); err != nil {
		return Stats{}, err
	}
	return s, nil
}

// OptionDescription tells of an option: [name][u8 kind][u32 length, default]
// [str32 description].
type OptionDescription struct {
	Key         string
	Default     galgo.Value // data alias the body
	Description string
}

// AppendOptionDescriptions appends [u32 count] and the descriptions.
func AppendOptionDescriptions(b []byte, options []OptionDescription) []byte {
	b = le.AppendUint32(b, uint32(len(options)))
	for _, o := range options {
		b = append(appendBytes8(b, o.Key), byte(o.Default.Kind))
		b = appendBytes32(appendBytes32(b, o.Default.Data), o.Description)
	}
	return b
}

// DecodeOptionDescriptions reads the body.
func DecodeOptionDescriptions(body []byte) ([]OptionDescription, error) {
	c := read("option descriptions", body)
	const least = 2 + 1 + 4 + 4
	var options []OptionDescription
	for range c.count("count", least) {
		options = append(options, OptionDescription{
			Key:         c.name("key"),
			Default:     galgo.Value{Kind: galgo.ValueKind(c.u8("kind")), Data: c.bytes32("default")},
			Description: c.string32("description"),
		})
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	return options, nil
}

// DescribeOptions is the answer about a scope: the catalogue for topics, nothing
// for others.
func DescribeOptions(scope galgo.OptionScope) []OptionDescription {
	if scope != galgo.ScopeTopic {
		return nil
	}
	var options []OptionDescription
	for _, o := range galgo.TopicOptionCatalogue() {
		options = append(options, OptionDescription{Key: o.Key, Default: o.Default, Description: o.Description})
	}
	return options
}
