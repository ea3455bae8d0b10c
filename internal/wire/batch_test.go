package wire

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"galgo"
)

func TestXXH3(t *testing.T) {
	for text, want := range map[string]uint64{
		"": 0x2d06800538d394c2, "abc": 0x78af5f94892f3950, "hello": 0x9555e8555c62dcfd,
		"0123456789abcdefghijklmnopqrstuvwxyz": 0xffb92a87c6306d55,
	} {
		if got := xxh3.HashString(text); got != want {
			t.Errorf("hash of %q is %016x, want %016x", text, got, want)
		}
	}
}

// sampleMessages are the two messages of the golden batch.
func sampleMessages(t testing.TB) []galgo.Message {
	t.Helper()
	headers, err := AppendUserHeaders(nil, []galgo.Header{{Key: galgo.StringValue("k"), Value: galgo.Uint32Value(7)}})
	if err != nil {
		t.Fatal(err)
	}
	return []galgo.Message{
		{ID: galgo.MessageID{1}, Payload: []byte("hello"), Timestamp: 1700000000000000},
		{ID: galgo.MessageID{2}, Payload: []byte("world!"), UserHeaders: headers, Timestamp: 1700000000000025},
	}
}

func sampleBatch(t testing.TB) Batch {
	t.Helper()
	b, err := AppendBatch(nil, sampleMessages(t))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	goldenFrameA = `8e5ca59edbbdbfb9 01000000000000000000000000000000 00000000 00000000 00000000 05000000 0000000000000000
		68656c6c6f`
	goldenFrameB = `c71cf470df522b35 02000000000000000000000000000000 01000000 19000000 0f000000 06000000 0000000000000000
		776f726c6421 02010000006b 0b0400000007000000`
	goldenFrames = goldenFrameA + goldenFrameB
)

func goldenRecord(t *testing.T, head, frames string) []byte {
	t.Helper()
	b := make([]byte, BatchHeaderSize)
	copy(b, unhex(t, head))
	return append(b, unhex(t, frames)...)
}

// TestGoldenBatch pins the bytes of a send, of the stamped batch, and of a slice.
func TestGoldenBatch(t *testing.T) {
	batch := sampleBatch(t)
	produced := goldenRecord(t, `000000000000000000000000000000000000000000000000 00401e18240a0600 7a01000000000000 da3a2dcb3c849700 02000000`, goldenFrames)
	diff(t, "produced", batch, produced)
	request := SendMessagesRequest{galgo.NumericID(1), galgo.NamedID("orders"), galgo.ToPartition(0), 2, batch}
	target := unhex(t, `18000000 010401000000 02066f7264657273 020400000000 02000000`)
	diff(t, "send", request.Append(nil), append(target, produced...))

	batch.Stamp(0, 100, 1700000001000000)
	diff(t, "stamped", batch, goldenRecord(t, `0000000000000000 6400000000000000 40822d18240a0600
		00401e18240a0600 7a01000000000000 b0f5533ced52bc47 02000000`, goldenFrames))
	if err := batch.ValidateProduced(); err != nil {
		t.Errorf("stamped batch: %v", err)
	}

	header := make([]byte, BatchHeaderSize)
	frames := batch.Slice(1, 2, header)
	sliced := append(header, frames...)
	diff(t, "slice", sliced, goldenRecord(t, `0000000000000000 6400000000000000 40822d18240a0600
		00401e18240a0600 4501000000000000 01106197381ea17a 01000000`,
		goldenFrameB))
	got := AppendMessages(nil, sliced)[0]
	if got.Offset != 101 || got.ServerTimestamp != 1700000001000000 || got.Timestamp != 1700000000000025 {
		t.Errorf("message of the slice: %+v", got)
	}
}

// TestValidateRefuses changes a good batch in one way each.
func TestValidateRefuses(t *testing.T) {
	const frameA, frameB = BatchHeaderSize, BatchHeaderSize + FrameHeaderSize + 5
	reseal := func(b Batch) Batch { // checksums that fit, so that only the change is at fault
		it := b.Frames()
		for it.Next() {
			f := it.Frame()
			le.PutUint64(f, frameSum(f))
		}
		le.PutUint64(b[offBatchChecksum:], b.checksum())
		return b
	}
	put := func(at int, v byte) func(Batch) Batch {
		return func(b Batch) Batch { b[at] ^= v; return b }
	}
	sealed := func(at int, v byte) func(Batch) Batch {
		return func(b Batch) Batch { b[at] ^= v; return reseal(b) }
	}
	for name, c := range map[string]struct {
		change  func(Batch) Batch
		reason  string
		layout  bool // ValidateLayout notices too
		accepts bool // Validate does not mind, ValidateProduced does
	}{
		"empty":                    {change: func(Batch) Batch { return nil }, reason: "bytes of the header", layout: true},
		"cut in the header":        {change: func(b Batch) Batch { return b[:255] }, reason: "bytes of the header", layout: true},
		"cut in a frame":           {change: func(b Batch) Batch { return b[:len(b)-1] }, reason: "length", layout: true},
		"longer than it says":      {change: func(b Batch) Batch { return append(b, 0) }, reason: "length", layout: true},
		"length of 0":              {change: func(b Batch) Batch { le.PutUint64(b[offBatchLength:], 0); return b }, reason: "length", layout: true},
		"length of 2^64-1":         {change: func(b Batch) Batch { le.PutUint64(b[offBatchLength:], 1<<64-1); return b }, reason: "length", layout: true},
		"first reserved byte":      {change: sealed(52, 1), reason: "reserved bytes are not zero", layout: true},
		"last reserved byte":       {change: sealed(255, 1), reason: "reserved bytes are not zero", layout: true},
		"no messages":              {change: put(offBatchCount, 2), reason: "message count", layout: true},
		"one message too few":      {change: put(offBatchCount, 3), reason: "message count", layout: true},
		"one message too many":     {change: put(offBatchCount, 1), reason: "message count", layout: true},
		"count of 2^24":            {change: sealed(offBatchCount+3, 1), reason: "message count", layout: true},
		"reserved word of frame A": {change: sealed(frameA+40, 1), reason: "reserved bytes are not zero", layout: true},
		"reserved word of frame B": {change: sealed(frameB+47, 1), reason: "reserved bytes are not zero", layout: true},
		"payload passes the end":   {change: put(frameB+39, 0x80), reason: "length passes the end", layout: true},
		"headers pass the end":     {change: put(frameB+35, 0xff), reason: "length passes the end", layout: true},
		"payload one byte short":   {change: put(frameB+36, 1), reason: "length passes the end", layout: true},
		"frame checksum":           {change: put(frameA, 1), reason: "checksum"},
		"payload byte":             {change: put(frameA+FrameHeaderSize, 1), reason: "checksum"},
		"user header byte":         {change: put(frameB+FrameHeaderSize+6, 1), reason: "checksum"},
		"id byte":                  {change: put(frameB+23, 1), reason: "checksum"},
		"batch checksum":           {change: put(offBatchChecksum, 1), reason: "checksum"},
		"partition":                {change: put(offBatchPartition, 1), reason: "checksum"},
		"base offset":              {change: put(offBatchBaseOffset+7, 1), reason: "checksum"},
		"base timestamp":           {change: put(offBatchBaseTimestamp, 1), reason: "checksum"},
		"origin timestamp":         {change: put(offBatchOrigin, 1), reason: "checksum"},
		"offset delta repeats":     {change: sealed(frameB+24, 1), reason: "offset delta", accepts: true},
		"offset delta leaves gap":  {change: sealed(frameB+24, 3), reason: "offset delta", accepts: true},
		"first offset delta":       {change: sealed(frameA+24, 1), reason: "offset delta", accepts: true},
	} {
		b := c.change(sampleBatch(t))
		err := b.ValidateProduced()
		var fault *BatchError
		if !errors.Is(err, ErrBatch) || !errors.As(err, &fault) || fault.Reason != c.reason {
			t.Errorf("%s: %v, want %q", name, err, c.reason)
		}
		if code, _ := galgo.CodeOf(err); code != galgo.CodeInvalidFormat {
			t.Errorf("%s: code %s", name, code)
		}
		if err := b.Validate(); (err == nil) != c.accepts {
			t.Errorf("%s: Validate says %v", name, err)
		}
		if err := b.ValidateLayout(); (err != nil) != c.layout {
			t.Errorf("%s: ValidateLayout says %v", name, err)
		}
	}
	for _, reasonless := range []Batch{sampleBatch(t), reseal(sampleBatch(t))} {
		if err := reasonless.ValidateProduced(); err != nil {
			t.Errorf("good batch: %v", err)
		}
	}
}

func TestCheckBatchCountsMessages(t *testing.T) {
	r := SendMessagesRequest{MessagesCount: 2, Batch: sampleBatch(t)}
	if err := r.CheckBatch(); err != nil {
		t.Error(err)
	}
	r.MessagesCount = 3
	if err := r.CheckBatch(); !errors.Is(err, ErrBatch) {
		t.Errorf("3 messages announced, 2 sent: %v", err)
	}
}

func TestAppendBatchRefuses(t *testing.T) {
	at := func(ts ...uint64) []galgo.Message {
		var all []galgo.Message
		for _, v := range ts {
			all = append(all, galgo.Message{Timestamp: v, Payload: []byte("x")})
		}
		return all
	}
	for name, c := range map[string]struct {
		messages []galgo.Message
		code     galgo.Code
	}{
		"none":              {nil, galgo.CodeInvalidMessagesCount},
		"far apart":         {at(10, 10+1<<32), galgo.CodeInvalidMessageTimestampDelta},
		"far apart, behind": {at(10+1<<32, 10), galgo.CodeInvalidMessageTimestampDelta},
		"as far as can be":  {at(10, 10+1<<32-1), galgo.CodeOK},
		"user headers":      {[]galgo.Message{{UserHeaders: make([]byte, UserHeadersMax+1)}}, galgo.CodeTooBigUserHeaders},
	} {
		_, err := AppendBatch(nil, c.messages)
		if code, _ := galgo.CodeOf(err); code != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
}

func drawMessages(t *rapid.T) []galgo.Message {
	base := rapid.Uint64Range(0, 1<<62).Draw(t, "base")
	count := rapid.IntRange(1, 300).Draw(t, "count") // past the chunk in which checksums are hashed
	payload := rapid.SliceOfN(rapid.Byte(), 0, 40)
	messages := make([]galgo.Message, count)
	for i := range messages {
		messages[i] = galgo.Message{
			ID: galgo.MessageID{byte(i), byte(i >> 8)}, Payload: payload.Draw(t, "payload"),
			Timestamp: base + uint64(rapid.Uint32().Draw(t, "delta")),
		}
		if rapid.Bool().Draw(t, "headers") {
			messages[i].UserHeaders = []byte{1, 1, 0, 0, 0, 7, 1, 1, 0, 0, 0, 8}
		}
	}
	return messages
}

// TestBatchProperties builds, stamps, slices and reads batches of every shape.
func TestBatchProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := drawMessages(t)
		prefix := []byte("before")
		built, err := AppendBatch(prefix, messages)
		if err != nil {
			t.Fatal(err)
		}
		batch := Batch(built[len(prefix):])
		if len(batch) != BatchSize(messages) || batch.ValidateProduced() != nil {
			t.Fatalf("batch of %d bytes, want %d: %v", len(batch), BatchSize(messages), batch.ValidateProduced())
		}
		naive := slices.Concat(batch[:40], batch[48:52])
		for it := batch.Frames(); it.Next(); {
			naive = append(naive, it.Frame()[:8]...)
		}
		if got, want := batch.Checksum(), xxh3.Hash(naive); got != want {
			t.Fatalf("checksum %x, want %x", got, want)
		}
		partition, base, stamp := rapid.Uint64().Draw(t, "partition"), rapid.Uint64Range(0, 1<<62).Draw(t, "base offset"), rapid.Uint64().Draw(t, "stamp")
		frames := bytes.Clone(batch[BatchHeaderSize:])
		batch.Stamp(partition, base, stamp)
		if err := batch.ValidateProduced(); err != nil || !bytes.Equal(batch[BatchHeaderSize:], frames) {
			t.Fatalf("stamped: %v", err)
		}
		for i := range messages {
			messages[i].Offset, messages[i].ServerTimestamp = base+uint64(i), stamp
		}
		checkSlice(t, batch, messages)
	})
}

func checkSlice(t *rapid.T, batch Batch, messages []galgo.Message) {
	from := rapid.IntRange(0, len(messages)-1).Draw(t, "from")
	to := rapid.IntRange(from+1, len(messages)).Draw(t, "to")
	header := bytes.Repeat([]byte{0xee}, BatchHeaderSize)
	sliced := Batch(append(header, batch.Slice(uint32(from), uint32(to), header)...))
	if err := sliced.Validate(); err != nil {
		t.Fatalf("slice %d..%d: %v", from, to, err)
	}
	got := AppendMessages(nil, sliced)
	for i := range got {
		want := messages[from+i]
		want.Checksum = got[i].Checksum
		if len(want.Payload) == 0 {
			want.Payload = got[i].Payload
		}
		if !slices.Equal(got[i].Payload, want.Payload) || !slices.Equal(got[i].UserHeaders, want.UserHeaders) ||
			got[i].Offset != want.Offset || got[i].Timestamp != want.Timestamp || got[i].ServerTimestamp != want.ServerTimestamp || got[i].ID != want.ID {
			t.Fatalf("message %d: %+v, want %+v", from+i, got[i], want)
		}
	}
	if len(got) != to-from {
		t.Fatalf("%d messages, want %d", len(got), to-from)
	}
}

func TestSlicePanicsOutOfRange(t *testing.T) {
	for _, c := range [][2]uint32{{0, 0}, {1, 1}, {2, 1}, {0, 3}, {2, 3}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("slice %d..%d of 2 messages does not panic", c[0], c[1])
				}
			}()
			sampleBatch(t).Slice(c[0], c[1], make([]byte, BatchHeaderSize))
		}()
	}
}

func TestPolledMessagesRefuses(t *testing.T) {
	batch := sampleBatch(t)
	poll := func(count uint32, records ...[]byte) []byte {
		return append(PollPrefix{1, 5, count}.Append(nil), slices.Concat(records...)...)
	}
	broken := bytes.Clone(batch)
	broken[len(broken)-1] ^= 1
	for name, c := range map[string]struct {
		body []byte
		want error
	}{
		"empty body":         {nil, ErrUndecodable},
		"cut prefix":         {poll(0)[:15], ErrUndecodable},
		"count too large":    {poll(3, batch), ErrBatch},
		"count of 2^32-1":    {poll(1<<32-1, batch), ErrBatch},
		"count too small":    {poll(1, batch), ErrBatch},
		"cut record":         {poll(2, batch[:len(batch)-1]), ErrBatch},
		"bytes behind":       {poll(2, batch, []byte{0}), ErrBatch},
		"a payload changed":  {poll(2, broken), ErrBatch},
		"count, no messages": {poll(1), ErrBatch},
		"nothing":            {poll(0), nil},
		"two records":        {poll(4, batch, batch), nil},
	} {
		if _, err := DecodePolledMessages(c.body); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func frameSum(f Frame) uint64 { return xxh3.Hash(f[8:]) }

// batchOf is count messages of size bytes each.
func batchOf(t testing.TB, count, size int) Batch {
	t.Helper()
	messages := make([]galgo.Message, count)
	for i := range messages {
		messages[i] = galgo.Message{ID: galgo.MessageID{byte(i)}, Payload: bytes.Repeat([]byte{byte(i)}, size), Timestamp: uint64(i)}
	}
	b, err := AppendBatch(nil, messages)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDataPathAllocatesNothing holds what runs for each request or batch to its
// budget.
func TestDataPathAllocatesNothing(t *testing.T) {
	batch := batchOf(t, 300, 100)
	header := make([]byte, BatchHeaderSize)
	request := (&RequestHeader{Operation: OperationSendMessages}).AppendFrame(nil, nil)
	reply := (&ReplyHeader{Operation: OperationSendMessages}).AppendFrame(nil, nil)
	send := SendMessagesRequest{galgo.NumericID(1), galgo.NumericID(2), galgo.ToPartition(3), 300, batch}.Append(nil)
	poll := PollMessagesRequest{Consumer: galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NumericID(1)}, Stream: galgo.NumericID(1), Topic: galgo.NumericID(1), Strategy: galgo.FromNext()}.Append(nil)
	var sum uint64
	for name, f := range map[string]func(){
		"ValidateProduced": func() { must(t, batch.ValidateProduced()) },
		"ValidateLayout":   func() { must(t, batch.ValidateLayout()) },
		"Stamp":            func() { batch.Stamp(1, 2, 3) },
		"Slice":            func() { sum += uint64(len(batch.Slice(10, 200, header))) },
		"iterate": func() {
			for it := batch.Frames(); it.Next(); {
				sum += uint64(len(it.Frame().Payload()))
			}
		},
		"SplitBatch":                func() { _, _, err := SplitBatch(batch); must(t, err) },
		"DecodeRequestHeader":       func() { _, err := DecodeRequestHeader(request); must(t, err) },
		"DecodeReplyHeader":         func() { _, err := DecodeReplyHeader(reply); must(t, err) },
		"ParseReply":                func() { _, _, err := ParseReply(reply); must(t, err) },
		"CheckFrame":                func() { must(t, CheckFrame(request, 0)) },
		"DecodeSendMessagesRequest": func() { _, err := DecodeSendMessagesRequest(send); must(t, err) },
		"DecodePollMessagesRequest": func() { _, err := DecodePollMessagesRequest(poll); must(t, err) },
		"RequestHeader.Put":         func() { (&RequestHeader{}).Put(header) },
		"ReplyHeader.Put":           func() { (&ReplyHeader{}).Put(header) },
	} {
		if n := testing.AllocsPerRun(20, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func must(t testing.TB, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func BenchmarkBatchValidate(b *testing.B) {
	batch := batchOf(b, 1000, 1024)
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		must(b, batch.ValidateProduced())
	}
}

func BenchmarkBatchStamp(b *testing.B) {
	batch := batchOf(b, 1000, 1024)
	b.ReportAllocs()
	for b.Loop() {
		batch.Stamp(1, 2, 3)
	}
}

func BenchmarkBatchSlice(b *testing.B) {
	batch := batchOf(b, 1000, 1024)
	header := make([]byte, BatchHeaderSize)
	b.ReportAllocs()
	for b.Loop() {
		batch.Slice(100, 900, header)
	}
}

func BenchmarkAppendBatch(b *testing.B) {
	messages := AppendMessages(nil, batchOf(b, 1000, 1024))
	buffer := make([]byte, 0, BatchSize(messages))
	b.SetBytes(int64(BatchSize(messages)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := AppendBatch(buffer, messages); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeRequestHeader(b *testing.B) {
	frame := (&RequestHeader{Operation: OperationSendMessages}).AppendFrame(nil, nil)
	b.ReportAllocs()
	for b.Loop() {
		_, err := DecodeRequestHeader(frame)
		must(b, err)
	}
}
