package wire

import (
	"bytes"
	"reflect"
	"testing"
)

// What is encoded decodes to the same, every cut and every unknown value is refused.
func TestGroupBodies(t *testing.T) {
	groups := NodeGroups{Replica: 2, Groups: []GroupStatus{
		{View: 4, LogView: 3, Head: 9, CommitMin: 7, CommitMax: 8, State: GroupRecovering, Flags: groupFlagsAll, Leader: 1},
		{Group: 1 << 40, Stream: 1, Topic: 2, Partition: 3},
	}}
	stepped := StepDownReply{Groups: []SteppedDown{{1, StepDownBegun, 2}, {2, StepDownUnknown, 0}}}
	for _, c := range []struct {
		body   Body
		decode func([]byte) (any, error)
	}{
		{groups, func(b []byte) (any, error) { return DecodeNodeGroups(b) }},
		{StepDownRequest{All: true, Group: 3}, func(b []byte) (any, error) { return DecodeStepDownRequest(b) }},
		{stepped, func(b []byte) (any, error) { return DecodeStepDownReply(b) }},
	} {
		b := c.body.Append(nil)
		if got, err := c.decode(b); err != nil || !reflect.DeepEqual(got, c.body) {
			t.Errorf("%+v, %v, want %+v", got, err, c.body)
		}
		for n := range b {
			if _, err := c.decode(b[:n]); err == nil {
				t.Errorf("%T: %d bytes of %d are taken", c.body, n, len(b))
			}
		}
	}
	for at, b := range map[int][]byte{5 + 52: groups.Append(nil), 5 + 53: groups.Append(nil), 5 + 55: groups.Append(nil)} {
		b[at] = 99
		if _, err := DecodeNodeGroups(b); err == nil {
			t.Errorf("byte %d of groups may be anything", at)
		}
	}
	if _, err := DecodeStepDownRequest(append([]byte{2}, make([]byte, 8)...)); err == nil {
		t.Error("a flag of 2 is taken")
	}
	if _, err := DecodeStepDownReply(append([]byte{1, 0, 0, 0}, bytes.Repeat([]byte{9}, 10)...)); err == nil {
		t.Error("an unknown outcome is taken")
	}
}
