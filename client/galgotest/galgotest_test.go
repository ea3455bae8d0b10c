package galgotest_test

import (
	"context"
	"fmt"
	"testing"

	"galgo"
	"galgo/client"
	"galgo/client/galgotest"
)

func TestMessagesComeBackInOrder(t *testing.T) {
	ctx := context.Background()
	c := galgotest.Start(t).Client()
	if _, err := c.CreateStream(ctx, "orders"); err != nil {
		t.Fatal(err)
	}
	stream, topic := galgo.NamedID("orders"), galgo.NamedID("incoming")
	if _, err := c.CreateTopic(ctx, stream, client.TopicSpec{Name: "incoming", Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if _, err := c.SendMessages(ctx, stream, topic, galgo.ToPartition(1), []galgo.Message{{Payload: fmt.Append(nil, "m", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := c.Poll(ctx, client.PollRequest{
		Consumer: galgo.Consumer{Kind: galgo.ConsumerSingle, ID: galgo.NumericID(1)}, Stream: stream, Topic: topic,
		Partition: 1, Strategy: galgo.FromOffset(0), Count: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for m := range b.Messages() {
		if want := fmt.Sprint("m", i); string(m.Payload) != want || m.Offset != uint64(i) {
			t.Fatalf("offset %d holds %q, want %q at %d", m.Offset, m.Payload, want, i)
		}
		i++
	}
	if i != 10 {
		t.Fatalf("%d messages came back, want 10", i)
	}
}

func TestNodesDoNotShareAnything(t *testing.T) {
	ctx := context.Background()
	a, b := galgotest.Start(t).Client(), galgotest.Start(t).Client()
	if _, err := a.CreateStream(ctx, "only here"); err != nil {
		t.Fatal(err)
	}
	streams, err := b.Streams(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(streams) != 0 {
		t.Errorf("the other node has %v", streams)
	}
}
