package wire

import (
	"fmt"
	"strconv"
	"strings"

	"galgo"
)

// TopicOptions is what holds for a topic: each option as the topic's creator or
// updater set it, or as the server filled it in. Two are equal if == says so.
type TopicOptions struct {
	Compression                  galgo.CompressionAlgorithm
	MessageExpiry                uint64 // µs, galgo.Never
	MaxTopicSize                 uint64 // bytes, galgo.Never
	SegmentSize                  uint64 // bytes
	EnforceFsync                 bool   // see Durability
	MessagesRequiredToSave       uint32
	SizeOfMessagesRequiredToSave uint64 // bytes
	PreallocateSegments          bool

	// sent holds, in the order of optionSpecs, what clients sent. A kind of zero
	// means that they did not. It is what the first options block of replies
	// shows, which after an update can differ from the fields above.
	sent [optionCount]sentOption
}

type sentOption struct {
	kind galgo.ValueKind
	data string
}

// Durability is what a topic asks of an acknowledgement.
type Durability uint8

// The durabilities: the server's own default, an explicit enforce_fsync=true, and
// an explicit enforce_fsync=false.
const (
	DurabilityDefault Durability = iota
	DurabilityFsync
	DurabilityMemory
)

// Durability tells an explicit enforce_fsync from an absent one, which replies
// show as false too.
func (o *TopicOptions) Durability() Durability {
	switch {
	case !o.Explicit(galgo.OptionEnforceFsync):
		return DurabilityDefault
	case o.EnforceFsync:
		return DurabilityFsync
	}
	return DurabilityMemory
}

// DefaultTopicOptions is what holds for a topic created without options.
func DefaultTopicOptions() TopicOptions {
	return TopicOptions{
		Compression:                  galgo.CompressionNone,
		MessageExpiry:                galgo.Never,
		MaxTopicSize:                 galgo.Never,
		SegmentSize:                  galgo.SegmentSizeDefault,
		MessagesRequiredToSave:       galgo.MessagesRequiredToSaveDefault,
		SizeOfMessagesRequiredToSave: galgo.SizeOfMessagesRequiredToSaveDefault,
	}
}

// Explicit reports whether a client set the option. An option that was created
// with the value that asks for the default counts as not set.
func (o *TopicOptions) Explicit(key string) bool {
	i, ok := optionIndex(key)
	return ok && o.sent[i].kind != 0
}

// ParseTopicOptions resolves the options of a topic that is created with so many
// partitions. The error is an Error with CodeUnsupportedOptionKey,
// CodeInvalidOptionValue, or CodeInvalidTopicSize for a maximum below the segment
// size; for a block that is not well formed it is an ErrUndecodable.
func ParseTopicOptions(block Options, partitions uint32) (TopicOptions, error) {
	o := DefaultTopicOptions()
	entries, err := block.Entries()
	if err != nil {
		return TopicOptions{}, err
	}
	for _, e := range entries {
		i, ok := optionIndex(string(e.Key.Data))
		if !ok {
			return TopicOptions{}, unsupportedKey(e.Key)
		}
		isDefault, err := optionSpecs[i].set(&o, e.Value)
		if err != nil {
			return TopicOptions{}, invalidValue(e, err)
		}
		if !isDefault {
			o.send(i, optionSpecs[i].get(&o))
		}
	}
	if err := o.checkSizes(partitions); err != nil {
		return TopicOptions{}, err
	}
	return o, nil
}

// CheckTopicUpdate checks what can be said of an update without the topic: as
// Update, but for CodeInvalidTopicSize.
func CheckTopicUpdate(block Options) error {
	o := DefaultTopicOptions()
	return o.update(block)
}

// Update returns the options after an update: those in the block replace what was
// there, and a value that asks for the default leaves the field as it is. The
// error is as that of ParseTopicOptions; only three keys are allowed.
func (o TopicOptions) Update(block Options) (TopicOptions, error) {
	if err := o.update(block); err != nil {
		return TopicOptions{}, err
	}
	if err := o.checkSizes(0); err != nil {
		return TopicOptions{}, err
	}
	return o, nil
}

func (o *TopicOptions) update(block Options) error {
	entries, err := block.Entries()
	if err != nil {
		return err
	}
	for _, e := range entries {
		i, ok := optionIndex(string(e.Key.Data))
		if !ok || !optionSpecs[i].updatable {
			return unsupportedKey(e.Key)
		}
		if _, err := optionSpecs[i].set(o, e.Value); err != nil {
			return invalidValue(e, err)
		}
		o.send(i, e.Value) // as sent, not as resolved: clients of the protocol read it back so
	}
	return nil
}

func (o *TopicOptions) send(i int, v galgo.Value) {
	o.sent[i] = sentOption{kind: v.Kind, data: string(v.Data)}
}

// checkSizes compares options with each other and with the number of partitions.
func (o *TopicOptions) checkSizes(partitions uint32) error {
	if o.MaxTopicSize < o.SegmentSize {
		return galgo.Errorf(galgo.CodeInvalidTopicSize, "%s %d is below %s %d", galgo.OptionMaxTopicSize, o.MaxTopicSize, galgo.OptionSegmentSize, o.SegmentSize)
	}
	if o.PreallocateSegments && o.SegmentSize*uint64(partitions) > galgo.PreallocatedMax {
		return galgo.Errorf(galgo.CodeInvalidOptionValue, "%s: %d partitions of %d bytes are above %d", galgo.OptionPreallocateSegments, partitions, o.SegmentSize, uint64(galgo.PreallocatedMax))
	}
	return nil
}

// AppendExplicit appends the block of the options that clients set, in the order
// of keys, without a length.
func (o *TopicOptions) AppendExplicit(b []byte) []byte {
	for i, s := range o.sent {
		if s.kind != 0 {
			b = appendOption(b, optionSpecs[i].key, galgo.Value{Kind: s.kind, Data: []byte(s.data)})
		}
	}
	return b
}

// AppendDerived appends the block of the options that the server filled in, in the
// order of keys, without a length.
func (o *TopicOptions) AppendDerived(b []byte) []byte {
	for i, s := range o.sent {
		if s.kind == 0 {
			b = appendOption(b, optionSpecs[i].key, optionSpecs[i].get(o))
		}
	}
	return b
}

func appendOption(b []byte, key string, v galgo.Value) []byte {
	return appendField(appendField(b, galgo.StringValue(key)), v)
}

func unsupportedKey(key galgo.Value) error {
	return galgo.Errorf(galgo.CodeUnsupportedOptionKey, "option %q is not known here", key.Data)
}

func invalidValue(e galgo.Header, err error) error {
	return galgo.Errorf(galgo.CodeInvalidOptionValue, "option %q: %v", e.Key.Data, err)
}

// optionSpec is how an option is read and shown.
type optionSpec struct {
	key       string
	updatable bool
	// set reads a value into the field. isDefault tells that the value asked for
	// the server's default, and the field was left alone.
	set func(o *TopicOptions, v galgo.Value) (isDefault bool, err error)
	// get is the field in the option's own kind.
	get func(o *TopicOptions) galgo.Value
}

const optionCount = 8

// optionSpecs is sorted by key, the order of blocks in replies.
var optionSpecs = [optionCount]optionSpec{
	{galgo.OptionCompressionAlgorithm, true, setCompression,
		func(o *TopicOptions) galgo.Value { return galgo.StringValue(o.Compression.String()) }},
	{galgo.OptionEnforceFsync, false,
		func(o *TopicOptions, v galgo.Value) (bool, error) { return setBool(&o.EnforceFsync, v) },
		func(o *TopicOptions) galgo.Value { return galgo.BoolValue(o.EnforceFsync) }},
	{galgo.OptionMaxTopicSize, true, setMaxTopicSize,
		func(o *TopicOptions) galgo.Value { return galgo.Uint64Value(o.MaxTopicSize) }},
	{galgo.OptionMessageExpiry, true, setMessageExpiry,
		func(o *TopicOptions) galgo.Value { return galgo.Uint64Value(o.MessageExpiry) }},
	{galgo.OptionMessagesRequiredToSave, false, setMessagesRequired,
		func(o *TopicOptions) galgo.Value { return galgo.Uint32Value(o.MessagesRequiredToSave) }},
	{galgo.OptionPreallocateSegments, false,
		func(o *TopicOptions, v galgo.Value) (bool, error) { return setBool(&o.PreallocateSegments, v) },
		func(o *TopicOptions) galgo.Value { return galgo.BoolValue(o.PreallocateSegments) }},
	{galgo.OptionSegmentSize, false, setSegmentSize,
		func(o *TopicOptions) galgo.Value { return galgo.Uint64Value(o.SegmentSize) }},
	{galgo.OptionSizeOfMessagesRequiredToSave, false, setSizeOfMessagesRequired,
		func(o *TopicOptions) galgo.Value { return galgo.Uint64Value(o.SizeOfMessagesRequiredToSave) }},
}

func optionIndex(key string) (int, bool) {
	for i := range optionSpecs {
		if optionSpecs[i].key == key {
			return i, true
		}
	}
	return 0, false
}

func wrongKind(v galgo.Value, want string) error {
	return fmt.Errorf("%s of %d bytes, want %s", v.Kind, len(v.Data), want)
}

func setCompression(o *TopicOptions, v galgo.Value) (bool, error) {
	var algorithm galgo.CompressionAlgorithm
	switch {
	case v.Kind == galgo.KindUint8 && len(v.Data) == 1:
		algorithm = galgo.CompressionAlgorithm(v.Data[0])
	case v.Kind == galgo.KindString && strings.EqualFold(string(v.Data), "none"):
		algorithm = galgo.CompressionNone
	case v.Kind == galgo.KindString && strings.EqualFold(string(v.Data), "gzip"):
		algorithm = galgo.CompressionGzip
	}
	if algorithm != galgo.CompressionNone && algorithm != galgo.CompressionGzip {
		return false, wrongKind(v, `"none" or "gzip", or a uint8 of 1 or 2`)
	}
	o.Compression = algorithm
	return false, nil
}

func setBool(field *bool, v galgo.Value) (bool, error) {
	text := ""
	switch {
	case v.Kind == galgo.KindString:
		text = string(v.Data)
	case v.Kind == galgo.KindBool && len(v.Data) == 1 && v.Data[0] <= 1:
		text = strconv.FormatBool(v.Data[0] == 1)
	}
	if text != "true" && text != "false" {
		return false, wrongKind(v, `a bool of 0 or 1, or "true" or "false"`)
	}
	*field = text == "true"
	return false, nil
}

func setMessagesRequired(o *TopicOptions, v galgo.Value) (bool, error) {
	n := uint64(0)
	var err error
	switch v.Kind {
	case galgo.KindUint32:
		n, err = v.Uint64()
	case galgo.KindString:
		n, err = strconv.ParseUint(string(v.Data), 10, 32)
	default:
		err = wrongKind(v, "a uint32 or digits")
	}
	if err != nil {
		return false, err
	}
	if n < galgo.MessagesRequiredToSaveMin || n > galgo.MessagesRequiredToSaveMax {
		return false, fmt.Errorf("%d messages, want %d..%d", n, galgo.MessagesRequiredToSaveMin, galgo.MessagesRequiredToSaveMax)
	}
	o.MessagesRequiredToSave = uint32(n)
	return false, nil
}

// sized reads a uint64, or text by parse.
func sized(v galgo.Value, parse func(string) (uint64, error)) (uint64, error) {
	switch v.Kind {
	case galgo.KindUint64:
		return v.Uint64()
	case galgo.KindString:
		return parse(string(v.Data))
	}
	return 0, wrongKind(v, "a uint64 or text")
}

func setMessageExpiry(o *TopicOptions, v galgo.Value) (bool, error) {
	n, err := sized(v, ParseExpiry)
	if err != nil || n == galgo.ServerDefault {
		return n == galgo.ServerDefault, err
	}
	o.MessageExpiry = n
	return false, nil
}

func setMaxTopicSize(o *TopicOptions, v galgo.Value) (bool, error) {
	n, err := sized(v, ParseTopicSize)
	if err != nil || n == galgo.ServerDefault {
		return n == galgo.ServerDefault, err
	}
	o.MaxTopicSize = n
	return false, nil
}

func setSegmentSize(o *TopicOptions, v galgo.Value) (bool, error) {
	n, err := sized(v, galgo.ParseByteSize)
	if err != nil || n == galgo.ServerDefault {
		return n == galgo.ServerDefault, err
	}
	if n < galgo.SegmentSizeMin || n > galgo.SegmentSizeMax || n%galgo.SegmentSizeUnit != 0 {
		return false, fmt.Errorf("%d bytes, want a multiple of %d from %d to %d", n, galgo.SegmentSizeUnit, galgo.SegmentSizeMin, galgo.SegmentSizeMax)
	}
	o.SegmentSize = n
	return false, nil
}

func setSizeOfMessagesRequired(o *TopicOptions, v galgo.Value) (bool, error) {
	n, err := sized(v, galgo.ParseByteSize)
	if err != nil || n == galgo.ServerDefault {
		return n == galgo.ServerDefault, err
	}
	if n > galgo.SizeOfMessagesRequiredToSaveMax {
		return false, fmt.Errorf("%d bytes, want at most %d", n, galgo.SizeOfMessagesRequiredToSaveMax)
	}
	o.SizeOfMessagesRequiredToSave = n
	return false, nil
}

// ParseExpiry reads a message expiry in words: a duration, or what stands for
// never and for the server's default. The result is in µs.
func ParseExpiry(text string) (µs uint64, err error) {
	switch strings.ToLower(text) {
	case "never_expire", "unlimited", "none":
		return galgo.Never, nil
	case "server_default", "default":
		return galgo.ServerDefault, nil
	}
	return galgo.ParseDuration(text)
}

// ParseTopicSize reads a maximal topic size in words: a byte size, or what stands
// for no limit and for the server's default. The result is in bytes.
func ParseTopicSize(text string) (bytes uint64, err error) {
	switch strings.ToLower(text) {
	case "unlimited":
		return galgo.Never, nil
	case "server_default":
		return galgo.ServerDefault, nil
	}
	return galgo.ParseByteSize(text)
}
