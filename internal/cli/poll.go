package cli

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"galgo"
	"galgo/client"
)

type pollFlags struct {
	offset, timestamp string
	first, last, next bool
	count             uint32
	commit            bool
	consumer, group   string
	headers           bool
	file              string
}

func messagePollCommand() *command {
	var f pollFlags
	return &command{
		use: "poll STREAM TOPIC [PARTITION]", aliases: []string{"p"}, short: "Poll messages",
		long: `Poll messages of a partition, from where exactly one of --offset, --first,
--last, --next and --timestamp says. A timestamp is RFC 3339, or µs since the epoch.
With --output json each message is one line.

With --group it joins a consumer group, polls its share behind what the group has
committed, and leaves: other members give up partitions meanwhile. PARTITION is
needed without it only.`,
		example:  "  galgo message poll orders events 0 --first -m 10\n  galgo message poll orders events 0 --next --auto-commit -c worker\n  galgo message poll orders events --group workers -m 100 --auto-commit",
		args:     between(2, 3),
		connects: true,
		flags: func(fs *flagSet) {
			fs.StringVarP(&f.offset, "offset", "o", "", "from this offset on")
			fs.BoolVarP(&f.first, "first", "f", false, "from the first message on")
			fs.BoolVarP(&f.last, "last", "l", false, "the last messages")
			fs.BoolVarP(&f.next, "next", "n", false, "behind the consumer's stored offset")
			fs.StringVar(&f.timestamp, "timestamp", "", "from the first batch stored then or later")
			fs.Uint32VarP(&f.count, "message-count", "m", 1, "the most messages to poll")
			fs.BoolVarP(&f.commit, "auto-commit", "a", false, "store the offset of the last one for the consumer")
			fs.StringVarP(&f.consumer, "consumer", "c", "1", "consumer, a number or a name")
			fs.StringVarP(&f.group, "group", "g", "", "poll as a member of this consumer group, a number or a name")
			fs.BoolVarP(&f.headers, "show-headers", "s", false, "print user headers, a column each")
			fs.StringVar(&f.file, "output-file", "", "write the payloads here, back to back, instead of printing")
		},
		run: func(ctx context.Context, e *env, args []string) error { return messagePoll(ctx, e, &f, args) },
	}
}

func messagePoll(ctx context.Context, e *env, f *pollFlags, args []string) error {
	r := client.PollRequest{Count: f.count, AutoCommit: f.commit}
	var err error
	if r.Stream, r.Topic, err = parseStreamTopic(args); err != nil {
		return err
	}
	var only []uint32
	if len(args) > 2 {
		if r.Partition, err = parseUint32("PARTITION", args[2]); err != nil {
			return err
		}
		only = append(only, r.Partition)
	}
	if r.Consumer, err = f.who(len(only) > 0); err != nil {
		return err
	}
	if r.Strategy, err = f.strategy(); err != nil {
		return err
	}
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		batches, err := pollAs(ctx, c, r, only)
		if err != nil {
			return err
		}
		for _, b := range batches {
			if err := b.Verify(); err != nil {
				return err
			}
			e.say("%d messages of partition %d, whose current offset is %d", b.Len(), b.PartitionID, b.CurrentOffset)
		}
		if f.file != "" {
			return writePayloads(f.file, batches)
		}
		return printMessages(e, batches, f.headers)
	})
}

// who is the consumer that polls.
func (f *pollFlags) who(partition bool) (galgo.Consumer, error) {
	if f.group == "" {
		if !partition {
			return galgo.Consumer{}, usagef("want PARTITION, or --group")
		}
		id, err := parseID("--consumer", f.consumer)
		return galgo.Consumer{Kind: galgo.ConsumerSingle, ID: id}, err
	}
	if !f.next && f.offset == "" && f.timestamp == "" && !f.first && !f.last {
		f.next = true // where the group is
	}
	id, err := parseID("--group", f.group)
	return galgo.Consumer{Kind: galgo.ConsumerGroup, ID: id}, err
}

func pollAs(ctx context.Context, c *client.Client, r client.PollRequest, only []uint32) ([]*client.Batch, error) {
	if r.Consumer.Kind == galgo.ConsumerGroup {
		return pollAsMember(ctx, c, r, only)
	}
	b, err := c.Poll(ctx, r)
	return []*client.Batch{b}, err
}

// messagesOf yields the messages of all batches.
func messagesOf(batches []*client.Batch) iter.Seq[galgo.Message] {
	return func(yield func(galgo.Message) bool) {
		for _, b := range batches {
			for m := range b.Messages() {
				if !yield(m) {
					return
				}
			}
		}
	}
}

func (f *pollFlags) strategy() (galgo.PollingStrategy, error) {
	var given []galgo.PollingStrategy
	if f.offset != "" {
		offset, err := parseUint64("--offset", f.offset)
		if err != nil {
			return galgo.PollingStrategy{}, err
		}
		given = append(given, galgo.FromOffset(offset))
	}
	if f.timestamp != "" {
		µs, err := parseTime(f.timestamp)
		if err != nil {
			return galgo.PollingStrategy{}, err
		}
		given = append(given, galgo.FromTimestamp(µs))
	}
	if f.first {
		given = append(given, galgo.FromFirst())
	}
	if f.last {
		given = append(given, galgo.FromLast())
	}
	if f.next {
		given = append(given, galgo.FromNext())
	}
	if len(given) != 1 {
		return galgo.PollingStrategy{}, usagef("want exactly one of --offset, --first, --last, --next and --timestamp")
	}
	return given[0], nil
}

func parseTime(s string) (uint64, error) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		if t.UnixMicro() < 0 {
			return 0, usagef("--timestamp %s: is before 1970", s)
		}
		return uint64(t.UnixMicro()), nil
	}
	return parseUint64("--timestamp", s)
}

func writePayloads(name string, batches []*client.Batch) error {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	for m := range messagesOf(batches) {
		if _, err := out.Write(m.Payload); err != nil {
			out.Close()
			return err
		}
	}
	return out.Close()
}

// polled is a message as it prints.
type polled struct {
	Offset    uint64   `json:"offset"`
	Timestamp string   `json:"timestamp"`
	Origin    string   `json:"origin_timestamp"`
	ID        string   `json:"id"`
	Length    int      `json:"length"`
	Payload   text     `json:"payload"`
	Headers   []header `json:"headers,omitempty"`
}

type header struct {
	Key   string `json:"key"`
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

func polledOf(m galgo.Message) polled {
	p := polled{
		Offset: m.Offset, Timestamp: timeOf(m.ServerTimestamp), Origin: timeOf(m.Timestamp),
		ID: idText(m.ID), Length: len(m.Payload), Payload: textOf(m.Payload),
	}
	headers, err := client.Headers(m)
	if err != nil { // of a producer that writes something else there
		p.Headers = []header{{"(undecodable)", "raw", fmt.Sprintf("%x", m.UserHeaders)}}
		return p
	}
	for _, h := range headers {
		p.Headers = append(p.Headers, header{h.Key.String(), h.Value.Kind.String(), h.Value.String()})
	}
	return p
}

// idText shows an id as the number it is on the wire, in hexadecimal.
func idText(id galgo.MessageID) string {
	return fmt.Sprintf("%016x%016x", binary.LittleEndian.Uint64(id[8:]), binary.LittleEndian.Uint64(id[:8]))
}

func printMessages(e *env, batches []*client.Batch, withHeaders bool) error {
	if e.globals.output == outputJSON {
		for m := range messagesOf(batches) {
			if err := e.printJSON(polledOf(m)); err != nil {
				return err
			}
		}
		return nil
	}
	var all []polled
	for m := range messagesOf(batches) {
		p := polledOf(m)
		if p.Payload.Base64 != nil {
			p.Payload.Text = string(m.Payload) // the table quotes it
		}
		all = append(all, p)
	}
	return e.print(nil, messageTable(all, withHeaders))
}

func messageTable(all []polled, withHeaders bool) table {
	var keys []string
	if withHeaders {
		for _, p := range all {
			for _, h := range p.Headers {
				if !slices.Contains(keys, h.Key) {
					keys = append(keys, h.Key)
				}
			}
		}
	}
	t := table{append([]string{"Offset", "Timestamp", "ID", "Length", "Payload"}, keys...)}
	for _, p := range all {
		row := []any{p.Offset, p.Timestamp, p.ID, p.Length, p.Payload.Text}
		for _, key := range keys {
			row = append(row, p.header(key))
		}
		t.add(row...)
	}
	return t
}

func (p *polled) header(key string) string {
	var values []string
	for _, h := range p.Headers {
		if h.Key == key {
			values = append(values, h.Value)
		}
	}
	return strings.Join(values, ", ")
}
