package test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"galgo"
	"galgo/client"
)

// What a server may take of the memory without any partition, and for each that holds a
// message, with what the runtime keeps of what is free.
const (
	memoryOfAServer    = 64 << 20
	memoryOfAPartition = 24 << 10
)

// Thousands of partitions that hold a message each fit in memory by their number, and
// the server ends in order with all of them, without taking much more for that.
func TestManyPartitionsStopInOrder(t *testing.T) {
	const topics, partitions = 5, 1000
	s := newServer(t)
	s.start()
	ctx := context.Background()
	c := s.dial()
	if _, err := c.CreateStream(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	stream := galgo.NamedID("s")
	for i := range uint32(topics) {
		if _, err := c.CreateTopic(ctx, stream, client.TopicSpec{Name: fmt.Sprint("t", i), Partitions: partitions}); err != nil {
			t.Fatal(err)
		}
		sends, ctx := errgroup.WithContext(ctx)
		sends.SetLimit(64)
		for p := range uint32(partitions) {
			sends.Go(func() error {
				_, err := c.SendMessages(ctx, stream, galgo.NumericID(i), galgo.ToPartition(p), []galgo.Message{{Payload: fmt.Append(nil, i, p)}})
				return err
			})
		}
		if err := sends.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	peak := make(chan int, 1)
	go func(pid int) { peak <- memoryToTheEnd(pid) }(s.cmd.Process.Pid)
	if status := s.stop(); status != 0 {
		t.Fatalf("exit status %d\n%s", status, s.output)
	}
	if got, most := <-peak, memoryOfAServer+topics*partitions*memoryOfAPartition; got > most {
		t.Errorf("%d MiB of memory at most, want %d", got>>20, most>>20)
	} else {
		t.Logf("%d MiB of memory at most", got>>20)
	}
	s.start()
	defer s.kill()
	stats, err := s.dial().Stats(ctx)
	if err != nil || stats.MessagesCount != topics*partitions {
		t.Errorf("%d messages after the restart (%v), want %d", stats.MessagesCount, err, topics*partitions)
	}
}

// memoryToTheEnd is the most that a process had in memory until it ended, in bytes.
func memoryToTheEnd(pid int) (peak int) {
	for {
		now := peakMemory(pid)
		if now == 0 {
			return peak
		}
		peak = now
		time.Sleep(5 * time.Millisecond)
	}
}
