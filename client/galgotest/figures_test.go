package galgotest_test

import (
	"context"
	"testing"

	"galgo"
	"galgo/client"
	"galgo/client/galgotest"
)

// Numbers are of what is there: a purge takes all of a topic out of them, a deletion of
// segments what was in these, and the offset stays that of the last message written.
func TestFiguresAfterAPurgeAndADeletion(t *testing.T) {
	ctx := context.Background()
	c := galgotest.Start(t).Client()
	if _, err := c.CreateStream(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	stream := galgo.NamedID("s")
	const sent, size = 40, 64 << 10
	for _, name := range []string{"purged", "cut"} {
		spec := client.TopicSpec{Name: name, Partitions: 1, Options: []galgo.Header{client.TopicOption("segment_size", galgo.StringValue("1 MiB"))}}
		if _, err := c.CreateTopic(ctx, stream, spec); err != nil {
			t.Fatal(err)
		}
		for range sent {
			if _, err := c.SendMessages(ctx, stream, galgo.NamedID(name), galgo.ToPartition(0), []galgo.Message{{Payload: make([]byte, size)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := figures(t, c, "cut")
	if err := c.PurgeTopic(ctx, stream, galgo.NamedID("purged")); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteSegments(ctx, stream, galgo.NamedID("cut"), 0, 1); err != nil {
		t.Fatal(err)
	}
	purged, cut := figures(t, c, "purged"), figures(t, c, "cut")
	if purged.MessagesCount != 0 || purged.Size != 0 || purged.CurrentOffset != 0 {
		t.Errorf("the purged partition says %+v", purged)
	}
	if cut.SegmentsCount != before.SegmentsCount-1 || cut.MessagesCount == 0 || cut.MessagesCount >= sent || cut.CurrentOffset != sent-1 ||
		cut.Size != before.Size/sent*cut.MessagesCount {
		t.Errorf("the partition without its first segment says %+v, before %+v", cut, before)
	}
	s, err := c.Stats(ctx)
	if err != nil || s.MessagesCount != cut.MessagesCount || s.MessagesSize != cut.Size || s.SegmentsCount != cut.SegmentsCount+purged.SegmentsCount {
		t.Errorf("the server says %d messages in %d bytes and %d segments (%v)", s.MessagesCount, s.MessagesSize, s.SegmentsCount, err)
	}
	d, err := c.Stream(ctx, stream)
	if err != nil || d.MessagesCount != cut.MessagesCount || d.Size != cut.Size {
		t.Errorf("the stream says %d messages in %d bytes (%v)", d.MessagesCount, d.Size, err)
	}
}

func figures(t *testing.T, c *client.Client, topic string) client.Partition {
	t.Helper()
	d, err := c.Topic(context.Background(), galgo.NamedID("s"), galgo.NamedID(topic))
	if err != nil {
		t.Fatal(err)
	}
	return d.Partitions[0]
}
