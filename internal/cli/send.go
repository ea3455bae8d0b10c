package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"galgo"
	"galgo/client"
)

// Bounds of what is sent at a time.
const (
	sendBatchMessages = 1000
	sendBatchBytes    = 1 << 20
	sendInputMax      = 32 << 20 // one line, or one input file
)

type sendFlags struct {
	partition int64
	key       string
	headers   []string
	file      string
}

func messageSendCommand() *command {
	var f sendFlags
	return &command{
		use: "send STREAM TOPIC [MESSAGE...]", aliases: []string{"s"}, short: "Send messages",
		long: `Send messages: those of the command line, or the content of a file as one
message, or without either the lines of stdin. Without a partition or a key the
batches go to the partitions in turn. Prints where the messages were stored.`,
		example:  "  galgo message send orders events hello world\n  tail -f log | galgo message send orders events --message-key web1",
		args:     atLeast(2),
		connects: true,
		flags: func(fs *flagSet) {
			fs.Int64VarP(&f.partition, "partition-id", "p", -1, "partition to send to")
			fs.StringVarP(&f.key, "message-key", "m", "", "key whose hash picks the partition")
			fs.StringArrayVarP(&f.headers, "headers", "H", nil, "KEY:KIND:VALUE, a user header of every message (repeat)")
			fs.StringVar(&f.file, "input-file", "", "file to send as one message")
		},
		run: func(ctx context.Context, e *env, args []string) error { return messageSend(ctx, e, &f, args) },
	}
}

func messageSend(ctx context.Context, e *env, f *sendFlags, args []string) error {
	stream, topic, err := parseStreamTopic(args)
	if err != nil {
		return err
	}
	to, err := f.partitioning()
	if err != nil {
		return err
	}
	headers, err := f.encodeHeaders()
	if err != nil {
		return err
	}
	source, err := f.source(e, args[2:])
	if err != nil {
		return err
	}
	c, err := e.connect(ctx) // without a deadline: stdin may take its time
	if err != nil {
		return err
	}
	s := sender{e: e, client: c, stream: stream, topic: topic, to: to, headers: headers}
	err = s.run(ctx, source)
	return errors.Join(err, c.Close(), s.report())
}

func (f *sendFlags) partitioning() (galgo.Partitioning, error) {
	switch {
	case f.partition >= 0 && f.key != "":
		return galgo.Partitioning{}, usagef("--partition-id and --message-key exclude each other")
	case f.partition > 1<<32-1 || f.partition < -1:
		return galgo.Partitioning{}, usagef("--partition-id %d: want a number of 0..4294967295", f.partition)
	case f.partition >= 0:
		return galgo.ToPartition(uint32(f.partition)), nil
	case f.key != "":
		return galgo.ByKey([]byte(f.key)), nil
	}
	return galgo.Balanced(), nil
}

func (f *sendFlags) encodeHeaders() ([]byte, error) {
	var headers []galgo.Header
	for _, s := range f.headers {
		h, err := parseHeader(s)
		if err != nil {
			return nil, err
		}
		headers = append(headers, h)
	}
	encoded, err := client.EncodeHeaders(headers...)
	if err != nil {
		return nil, usagef("--headers: %v", err)
	}
	return encoded, nil
}

// source returns what yields payloads one by one, and io.EOF at the end. wait is
// whether the next one may take its time, so that what was read is sent before.
func (f *sendFlags) source(e *env, args []string) (*payloads, error) {
	switch {
	case f.file != "" && len(args) > 0:
		return nil, usagef("--input-file and messages exclude each other")
	case f.file != "":
		b, err := readFileMax(f.file, sendInputMax)
		return &payloads{fixed: [][]byte{b}}, err
	case len(args) > 0:
		p := &payloads{}
		for _, a := range args {
			p.fixed = append(p.fixed, []byte(a))
		}
		return p, nil
	}
	if isTerminal(e.program.Stdin) {
		e.say("Type messages, one a line; end with Ctrl-D.")
	}
	return &payloads{lines: bufio.NewReaderSize(e.program.Stdin, 64<<10)}, nil
}

func readFileMax(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes, the most for one message", name, limit)
	}
	return b, err
}

// payloads yields what is to be sent.
type payloads struct {
	fixed [][]byte
	lines *bufio.Reader
}

// next returns the next payload, or io.EOF. Empty lines are skipped: a message has
// at least one byte.
func (p *payloads) next() ([]byte, error) {
	if p.lines == nil {
		if len(p.fixed) == 0 {
			return nil, io.EOF
		}
		first := p.fixed[0]
		p.fixed = p.fixed[1:]
		return first, nil
	}
	for {
		line, err := p.line()
		if len(line) > 0 || err != nil {
			return line, err
		}
	}
}

func (p *payloads) line() (line []byte, err error) {
	for {
		part, err := p.lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > sendInputMax:
			return nil, fmt.Errorf("a line of stdin is longer than %d bytes", sendInputMax)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && len(line) > 0:
			return line, nil
		case err != nil:
			return nil, err
		}
		line = line[:len(line)-1]
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		return line, nil
	}
}

// more reports whether next returns at once.
func (p *payloads) more() bool {
	if p.lines == nil {
		return len(p.fixed) > 0
	}
	return p.lines.Buffered() > 0
}

// sender sends batches one after the other, so that order is kept.
type sender struct {
	e             *env
	client        *client.Client
	stream, topic galgo.Identifier
	to            galgo.Partitioning
	headers       []byte
	batch         []galgo.Message
	bytes         int
	placed        []placed
}

// placed is where a batch went.
type placed struct {
	Stream    uint32 `json:"stream_id"`
	Topic     uint32 `json:"topic_id"`
	Partition uint32 `json:"partition_id"`
	Base      uint64 `json:"base_offset"`
	Count     int    `json:"messages"`
}

func (s *sender) run(ctx context.Context, source *payloads) error {
	for {
		payload, err := source.next()
		if err == io.EOF {
			return s.send(ctx)
		}
		if err != nil {
			return errors.Join(err, s.send(ctx))
		}
		s.batch = append(s.batch, galgo.Message{Payload: payload, UserHeaders: s.headers})
		s.bytes += len(payload) + len(s.headers)
		if len(s.batch) >= sendBatchMessages || s.bytes >= sendBatchBytes || !source.more() {
			if err := s.send(ctx); err != nil {
				return err
			}
		}
	}
}

func (s *sender) send(ctx context.Context) error {
	if len(s.batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.e.globals.timeout)
	defer cancel()
	p, err := s.client.SendMessages(ctx, s.stream, s.topic, s.to, s.batch)
	if err != nil {
		return err
	}
	s.note(placed{p.StreamID, p.TopicID, p.PartitionID, p.BaseOffset, len(s.batch)})
	clear(s.batch)
	s.batch, s.bytes = s.batch[:0], 0
	return nil
}

// note joins batches that lie one behind the other.
func (s *sender) note(p placed) {
	if n := len(s.placed); n > 0 {
		last := &s.placed[n-1]
		if last.Stream == p.Stream && last.Topic == p.Topic && last.Partition == p.Partition && last.Base+uint64(last.Count) == p.Base {
			last.Count += p.Count
			return
		}
	}
	s.placed = append(s.placed, p)
}

// report prints what was stored, also when not everything was.
func (s *sender) report() error {
	t := table{{"Stream", "Topic", "Partition", "Base Offset", "Messages"}}
	for _, p := range s.placed {
		t.add(p.Stream, p.Topic, p.Partition, p.Base, p.Count)
	}
	if s.placed == nil {
		s.placed = []placed{}
	}
	return s.e.print(s.placed, t)
}
