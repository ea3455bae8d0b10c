package client

import (
	"context"
	"sync"
	"time"

	"galgo"
)

const (
	// topicFresh is how long the number of partitions of a topic is trusted, so that
	// added ones get messages before long.
	topicFresh = 30 * time.Second
	// topicsCachedMax bounds the topics whose number of partitions is remembered.
	topicsCachedMax = 4096
)

type topicKey struct{ stream, topic galgo.Identifier }

// topicCache remembers how many partitions topics have, and where the round robin
// of each is.
type topicCache struct {
	mu     sync.Mutex
	topics map[topicKey]*cachedTopic
}

type cachedTopic struct {
	partitions uint32
	readAt     time.Time
	next       uint32 // of the round robin; outlives a change of partitions
}

func newTopicCache() topicCache { return topicCache{topics: make(map[topicKey]*cachedTopic)} }

// forget makes the next balanced or keyed send read the topic anew.
func (t *topicCache) forget(key topicKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.topics[key]; e != nil {
		e.partitions = 0
	}
}

func (t *topicCache) learn(key topicKey, partitions uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.topics[key]
	if e == nil {
		if len(t.topics) >= topicsCachedMax {
			clear(t.topics)
		}
		e = &cachedTopic{}
		t.topics[key] = e
	}
	e.partitions, e.readAt = partitions, time.Now()
}

// pick resolves a partitioning if the topic is known well enough.
func (t *topicCache) pick(key topicKey, p galgo.Partitioning) (partition uint32, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.topics[key]
	if e == nil || e.partitions == 0 || time.Since(e.readAt) > topicFresh {
		return 0, false
	}
	if p.Kind == galgo.PartitioningKey {
		return galgo.KeyPartition(p.Key, e.partitions), true
	}
	partition = e.next % e.partitions
	e.next++
	return partition, true
}

// resolve turns a balanced or keyed partitioning into a partition: a send must name
// its partition, so that a repeated one meets the group that knows the first.
func (c *Client) resolve(ctx context.Context, key topicKey, p galgo.Partitioning) (uint32, error) {
	if p.Kind == galgo.PartitioningPartition {
		return p.PartitionID, nil
	}
	if partition, ok := c.topics.pick(key, p); ok {
		return partition, nil
	}
	topic, err := c.Topic(ctx, key.stream, key.topic)
	if err != nil {
		return 0, err
	}
	if topic.PartitionsCount == 0 {
		return 0, &Error{Call: describe("send to", key.stream, "/", key.topic),
			Err: galgo.Errorf(galgo.CodeNoPartitions, "the topic has no partitions: create some")}
	}
	c.topics.learn(key, topic.PartitionsCount)
	partition, _ := c.topics.pick(key, p)
	return partition, nil
}
