package galgo

// The keys of topic options.
const (
	OptionCompressionAlgorithm         = "compression_algorithm"
	OptionEnforceFsync                 = "enforce_fsync"
	OptionMaxTopicSize                 = "max_topic_size"
	OptionMessageExpiry                = "message_expiry"
	OptionMessagesRequiredToSave       = "messages_required_to_save"
	OptionPreallocateSegments          = "preallocate_segments"
	OptionSegmentSize                  = "segment_size"
	OptionSizeOfMessagesRequiredToSave = "size_of_messages_required_to_save"
)

// Bounds and defaults of topic options. Sizes are bytes.
const (
	SegmentSizeMin     = 1 << 20
	SegmentSizeMax     = 1 << 30
	SegmentSizeDefault = 1 << 30
	SegmentSizeUnit    = 512 // a segment size is a multiple of it

	MessagesRequiredToSaveMin     = 1
	MessagesRequiredToSaveMax     = 16_777_216
	MessagesRequiredToSaveDefault = 1024

	SizeOfMessagesRequiredToSaveMax     = 1 << 30
	SizeOfMessagesRequiredToSaveDefault = 1 << 20

	PreallocatedMax = 64 << 30 // segment size times partitions
)

// OptionScope is the thing whose options are described.
type OptionScope uint8

// The scopes. Streams and users have no options.
const (
	ScopeTopic  OptionScope = 1
	ScopeStream OptionScope = 2
	ScopeUser   OptionScope = 3
)

// TopicOption describes a topic option.
type TopicOption struct {
	Key         string
	Default     Value // in the kind in which the option is stored
	Updatable   bool
	Description string
}

// TopicOptionCatalogue lists the topic options in the order in which they are
// described to clients. The caller owns the list.
func TopicOptionCatalogue() []TopicOption {
	return []TopicOption{
		{OptionCompressionAlgorithm, StringValue("none"), true,
			"how producers compress payloads: none or gzip; kept for clients, the server compresses nothing"},
		{OptionMessageExpiry, Uint64Value(Never), true,
			"age in microseconds above which sealed segments are removed; a duration such as \"7 days\", or never_expire"},
		{OptionMaxTopicSize, Uint64Value(Never), true,
			"bytes above which the oldest sealed segments are removed; a size such as \"10 GiB\", or unlimited"},
		{OptionSegmentSize, Uint64Value(SegmentSizeDefault), false,
			"bytes of a segment: a multiple of 512, 1 MiB to 1 GiB"},
		{OptionEnforceFsync, BoolValue(false), false,
			"true: answer a send when it is on stable storage; false: when it is in memory; without it the server's own setting holds"},
		{OptionMessagesRequiredToSave, Uint32Value(MessagesRequiredToSaveDefault), false,
			"messages that gather in memory before they are written, 1 to 16777216; kept for clients"},
		{OptionSizeOfMessagesRequiredToSave, Uint64Value(SizeOfMessagesRequiredToSaveDefault), false,
			"bytes that gather in memory before they are written, at most 1 GiB; kept for clients"},
		{OptionPreallocateSegments, BoolValue(false), false,
			"reserve the space of a segment when it is opened; segment size times partitions may be 64 GiB"},
	}
}
