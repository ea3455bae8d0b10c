package superblock

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func sixteen(first byte) (b [16]byte) {
	for i := range b {
		b[i] = first + byte(i)
	}
	return b
}

var testState = State{
	Cluster: sixteen(0x10), Replica: 0x21, ReplicaCount: 0x22, View: 0x34333231, LogView: 0x30434241,
	CommitMax: 0x5857565554535251, CheckpointOp: 0x6867666564636261, CheckpointSum: sixteen(0x70),
	OffsetFrontier: 0x9897969594939291,
}

// storage.md §10.2, D-01: each offset is pinned by a value of its own.
func TestStateGolden(t *testing.T) {
	const want = "101112131415161718191a1b1c1d1e1f" + "21" + "22" + "31323334" + "41424330" +
		"5152535455565758" + "6162636465666768" + "707172737475767778797a7b7c7d7e7f" + "9192939495969798"
	b := testState.Append(nil)
	if got := hex.EncodeToString(b); got != want || len(b) != StateSize {
		t.Fatalf("state of %d bytes\n%s, want\n%s", len(b), got, want)
	}
	if got, err := DecodeState(b); err != nil || got != testState {
		t.Fatalf("decoded %+v, %v", got, err)
	}
}

// storage.md §10.2, D-02.
func TestStateOf58Bytes(t *testing.T) {
	want := testState
	want.OffsetFrontier = 0
	if got, err := DecodeState(testState.Append(nil)[:58]); err != nil || got != want {
		t.Fatalf("decoded %+v, %v, want %+v", got, err, want)
	}
}

func TestStateLengths(t *testing.T) {
	for n := range 80 {
		_, err := DecodeState(make([]byte, n))
		if ok := n == 58 || n == 66; ok != (err == nil) || !ok && !errors.Is(err, ErrStateLength) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// storage.md §10.2, D-03.
func TestStateLogViewAboveView(t *testing.T) {
	s := State{View: 7, LogView: 7}
	b := s.Append(nil)
	if _, err := DecodeState(b); err != nil {
		t.Fatalf("equal views: %v", err)
	}
	b[22]++
	_, err := DecodeState(b)
	if !errors.Is(err, ErrStateViews) || !strings.Contains(err.Error(), "8 above 7") {
		t.Fatalf("log_view above view: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Fatal("a state with log_view above view was encoded")
		}
	}()
	s.LogView = 8
	s.Append(nil)
}

func TestStateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), StateSize, StateSize).Draw(t, "state")
		s, err := DecodeState(b)
		if err != nil {
			return
		}
		if got := s.Append(nil); !bytes.Equal(got, b) {
			t.Fatalf("%x encodes to %x", b, got)
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	f.Add(testState.Append(nil))
	f.Add(make([]byte, 58))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeState(b)
		if err != nil {
			return
		}
		if got := s.Append(nil); !bytes.Equal(got[:len(b)], b) || len(b) == 58 && s.OffsetFrontier != 0 {
			t.Fatalf("%x encodes to %x", b, got)
		}
	})
}

// The identity of a record, found foreign by each of its three fields.
func TestStateCheckNode(t *testing.T) {
	s := testState
	if err := s.CheckNode(testDir, s.Cluster, s.Replica, s.ReplicaCount); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{s.CheckNode(testDir, sixteen(0), s.Replica, s.ReplicaCount), "metadata has cluster 101112131415161718191a1b1c1d1e1f, the configuration says 000102030405060708090a0b0c0d0e0f"},
		{s.CheckNode(testDir, s.Cluster, 1, s.ReplicaCount), "metadata has replica 33, the configuration says 1"},
		{s.CheckNode(testDir, s.Cluster, s.Replica, 3), "metadata has replica count 34, the configuration says 3"},
	} {
		if !errors.Is(c.err, ErrForeign) || !strings.Contains(c.err.Error(), c.want) || !strings.Contains(c.err.Error(), "correct the configuration") {
			t.Errorf("error %q, want %q", c.err, c.want)
		}
	}
}

// storage.md §6.8, §10.4.
func TestCheckPairing(t *testing.T) {
	sum, other, none := sixteen(1), sixteen(2), [16]byte{}
	for _, c := range []struct {
		name  string
		state State
		op    uint64
		sum   [16]byte
		want  error
	}{
		{"no checkpoint, no snapshot", State{}, 0, none, nil},
		{"equal", State{CheckpointOp: 5, CheckpointSum: sum}, 5, sum, nil},
		{"snapshot newer", State{CheckpointOp: 5, CheckpointSum: sum}, 6, other, nil},
		{"snapshot without a pairing", State{}, 6, other, nil},
		{"snapshot older", State{CheckpointOp: 5, CheckpointSum: sum}, 4, sum, ErrCheckpointAhead},
		{"snapshot gone", State{CheckpointOp: 5, CheckpointSum: sum}, 0, none, ErrCheckpointAhead},
		{"same op, another checksum", State{CheckpointOp: 5, CheckpointSum: sum}, 5, other, ErrCheckpointChecksum},
	} {
		if err := c.state.CheckPairing(c.op, c.sum); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}
