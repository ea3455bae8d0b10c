package galgotest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"galgo"
	"galgo/client"
	"galgo/client/galgotest"
)

// Members come and go while messages are sent: each message is handled, those at the edge
// of a change perhaps twice.
func TestGroupConsumersShareATopic(t *testing.T) {
	ctx := t.Context()
	n := galgotest.Start(t)
	admin := n.Client()
	if _, err := admin.CreateStream(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	stream, topic := galgo.NamedID("s"), galgo.NamedID("t")
	if _, err := admin.CreateTopic(ctx, stream, client.TopicSpec{Name: "t", Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	const messages = 400
	var mu sync.Mutex
	seen := map[string]bool{}
	all := make(chan struct{})
	errDone := errors.New("done")
	consume := func(ctx context.Context, limit int) error {
		k := n.Client().NewGroupConsumer(client.GroupConsumerSpec{
			Stream: stream, Topic: topic, Group: galgo.NamedID("g"), Create: true, Commit: client.CommitEach, Count: 7,
		})
		handled := 0
		err := k.Run(ctx, func(_ context.Context, partition uint32, m galgo.Message) error {
			if handled == limit {
				return errDone
			}
			handled++
			mu.Lock()
			defer mu.Unlock()
			if seen[string(m.Payload)] {
				return nil
			}
			if seen[string(m.Payload)] = true; len(seen) == messages {
				close(all)
			}
			return nil
		})
		return errors.Join(err, k.Close(context.WithoutCancel(ctx)))
	}
	ctx, stop := context.WithCancel(ctx)
	var consumers sync.WaitGroup
	for i := range 5 {
		consumers.Go(func() {
			limit := messages + 1
			if i%2 == 1 {
				limit = 20 // some leave on the way
			}
			if err := consume(ctx, limit); !errors.Is(err, errDone) && !errors.Is(err, context.Canceled) {
				t.Errorf("consumer %d: %v", i, err)
			}
		})
	}
	for i := range messages {
		if _, err := admin.SendMessages(ctx, stream, topic, galgo.ToPartition(uint32(i%4)), []galgo.Message{{Payload: fmt.Append(nil, "m", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	<-all
	stop()
	consumers.Wait()
	g, err := admin.ConsumerGroup(context.Background(), stream, topic, galgo.NamedID("g"))
	if err != nil || len(g.Members) != 0 {
		t.Errorf("left behind: %+v, %v", g, err)
	}
}
