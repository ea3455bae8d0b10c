package peer

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"galgo/internal/vsr"
)

func frameOf(to uint8) vsr.Message { return vsr.Message{Kind: vsr.MessageSuspect, To: to, View: 3} }

func exampleHello() hello {
	h := hello{
		versionMin: 1, versionMax: 2, lane: Bulk, from: 1, to: 2, proves: true, life: 0x0102030405060708, last: 0x1112131415161718, phase: Begun, clusterName: "prod", name: "b",
	}
	copy(h.cluster[:], "cluster--cluster")
	copy(h.roster[:], "roster----roster")
	copy(h.nonce[:], strings.Repeat("n", nonceSize))
	return h
}

// The bytes are a promise: nodes of two releases have to understand each other.
func TestGoldenBytes(t *testing.T) {
	h := exampleHello()
	c := challenge{version: 1, versionMin: 1, versionMax: 3, proves: true}
	copy(c.nonce[:], strings.Repeat("m", nonceSize))
	call := dataEntry(recordCall, []byte{1, 0, 0, 0, 0, 0, 0, 0, 7}, []byte("question"))
	callBytes, body := appendRecord(nil, &call)
	state := dataEntry(recordState, []byte{9, 0, 0, 0, 0, 0, 0, 0, 2}, nil)
	stateBytes, _ := appendRecord(nil, &state)
	for name, g := range map[string]struct {
		got  []byte
		want string
	}{
		"hello": {h.append(nil), "47414c474f4c4e4b" + "0100" + "0200" + "01" + "01" + "02" + "01" + "636c75737465722d2d636c7573746572" + "726f737465722d2d2d2d726f73746572" +
			"0807060504030201" + "02" + "04" + "01" + "0000000000" + "1817161514131211" + strings.Repeat("6e", 32) + "70726f64" + "62"},
		"challenge": {c.append(nil), "47414c474f4c4e4b" + "0100" + "0100" + "0300" + "01" + "00" + strings.Repeat("6d", 32)},
		"verdict":   {verdict{status: statusLife, life: 258, own: 772}.append(nil), "04" + "00000000000000" + "0201000000000000" + "0403000000000000"},
		"call":      {append(callBytes, body...), "11000000" + "02" + "000000" + "77801069bd9fa867" + "010000000000000007" + "7175657374696f6e"},
		"state":     {stateBytes, "09000000" + "04" + "000000" + "8268e4ae4d3751dd" + "090000000000000002"},
	} {
		if got := hex.EncodeToString(g.got); got != g.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, g.want)
		}
	}
	if got := rosterDigest([]string{"a", "b"}); hex.EncodeToString(got[:]) != "b2be193fe322f62693fcc2bb0f3af738" {
		t.Errorf("digest of a roster: %x", got)
	}
}

func TestHelloRoundTrip(t *testing.T) {
	h := exampleHello()
	got, err := decodeHello(h.append(nil))
	if err != nil || got != h {
		t.Errorf("got %+v, %v", got, err)
	}
	for at, b := range map[int]byte{0: 0, 8: 9, 12: byte(lanes), 56: byte(phases), 57: 200} {
		bad := h.append(nil)
		bad[at] = b
		if _, err := decodeHello(bad); !errors.Is(err, ErrHandshake) {
			t.Errorf("byte %d is %d: %v", at, b, err)
		}
	}
}

// No head announces more than its kind can have.
func TestRecordBounds(t *testing.T) {
	for _, c := range []struct {
		kind        recordKind
		least, most int
	}{
		{recordFrame, vsr.EnvelopeSize, vsr.FrameMax}, {recordCall, callHeadSize, callHeadSize + BodyMax},
		{recordAnswer, answerHeadSize, answerHeadSize + BodyMax}, {recordState, stateSize, stateSize}, {recordPing, 0, 0},
		{recordLost, answerHeadSize, answerHeadSize},
	} {
		for size, ok := range map[int]bool{c.least - 1: c.least == 0, c.least: true, c.most: true, c.most + 1: false} {
			var b [recordHeadSize]byte
			recordHead{size: max(size, 0), kind: c.kind}.put(b[:])
			if _, err := decodeRecordHead(b[:]); (err == nil) != ok {
				t.Errorf("kind %d with %d bytes: %v", c.kind, size, err)
			}
		}
	}
	for _, kind := range []recordKind{0, recordKinds} {
		var b [recordHeadSize]byte
		recordHead{kind: kind}.put(b[:])
		if _, err := decodeRecordHead(b[:]); !errors.Is(err, ErrRecord) {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
}

func TestStatuses(t *testing.T) {
	for s := range statuses {
		v, err := decodeVerdict(verdict{status: s, life: 7}.append(nil))
		if err != nil || v.status != s || v.life != 7 || (v.status.err() == nil) != (s == statusWelcome) {
			t.Errorf("status %d: %+v, %v, %v", s, v, err, v.status.err())
		}
	}
	if status(200).err() == nil {
		t.Error("an unknown status is a welcome")
	}
}

func FuzzHello(f *testing.F) {
	h := exampleHello()
	f.Add(h.append(nil))
	f.Add([]byte(handshakeMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := decodeHello(b); err == nil {
			if again, err := decodeHello(h.append(nil)); err != nil || again != h {
				t.Errorf("%+v comes back as %+v, %v", h, again, err)
			}
		}
		readHello(bytes.NewReader(b))
		decodeChallenge(b)
		decodeVerdict(b)
	})
}

func FuzzRecordHead(f *testing.F) {
	var b [recordHeadSize]byte
	recordHead{size: stateSize, kind: recordState, checksum: 5}.put(b[:])
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < recordHeadSize {
			return
		}
		h, err := decodeRecordHead(b)
		if err != nil {
			return
		}
		if h.size > BodyMax+callHeadSize && h.size > vsr.FrameMax {
			t.Errorf("%d bytes are let in", h.size)
		}
		var again [recordHeadSize]byte
		if h.put(again[:]); !bytes.Equal(again[:], b[:recordHeadSize]) {
			t.Errorf("%x comes back as %x", b[:recordHeadSize], again)
		}
	})
}
