package config

import "strings"

// moved are keys of earlier releases of the reference server, which it refuses
// too, and what has taken their place. A name that ends in a dot is a section.
var moved = []struct{ name, successor string }{
	{"system.topic.max_size", "give the topic option max_topic_size when creating a topic"},
	{"system.topic.message_expiry", "give the topic option message_expiry when creating a topic"},
	{"system.partition.enforce_fsync", "set partition.durability, or the topic option enforce_fsync"},
	{"system.partition.messages_required_to_save", "give the topic option messages_required_to_save when creating a topic"},
	{"system.partition.size_of_messages_required_to_save", "give the topic option size_of_messages_required_to_save when creating a topic"},
	{"system.segment.size", "give the topic option segment_size when creating a topic"},
	{"system.segment.preallocate", "give the topic option preallocate_segments when creating a topic"},
	{"system.message_deduplication.", "it has no successor"},
	{"extra.", "it has no successor"},
}

// movedKey returns what replaces a key that is gone.
func movedKey(name string) (successor string, ok bool) {
	for _, m := range moved {
		if name == m.name || strings.HasSuffix(m.name, ".") && strings.HasPrefix(name, m.name) {
			return m.successor, true
		}
	}
	return "", false
}

// movedEnv does the same for the part of a variable after its prefix.
func movedEnv(suffix string) (name, successor string, ok bool) {
	for _, m := range moved {
		s := envSuffix(m.name)
		if suffix == s || strings.HasSuffix(s, "_") && strings.HasPrefix(suffix, s) {
			return strings.TrimSuffix(m.name, "."), m.successor, true
		}
	}
	return "", "", false
}
