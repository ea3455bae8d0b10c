package edge

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"galgo"
	"galgo/internal/wire"
)

// sections are what a fake node has to tell. A section without text fails.
type sections struct {
	text    map[wire.SnapshotType]string
	collect func(wire.SnapshotType)
}

func (s sections) Collect(section wire.SnapshotType, w io.Writer) error {
	if s.collect != nil {
		s.collect(section)
	}
	text, ok := s.text[section]
	if !ok {
		return errors.New("no such section")
	}
	_, err := io.WriteString(w, text)
	return err
}

func snapshotBody(compression wire.SnapshotCompression, types ...wire.SnapshotType) []byte {
	return wire.GetSnapshotRequest{Compression: compression, Types: types}.Append(nil)
}

// unpack returns the names and texts of an archive, in its order.
func unpack(t *testing.T, archive []byte) (names, texts []string) {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatalf("%d bytes are no archive: %v", len(archive), err)
	}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		names, texts = append(names, f.Name), append(texts, string(text))
	}
	return names, texts
}

func TestSnapshot(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Diagnostics = sections{text: map[wire.SnapshotType]string{
			wire.SnapshotTest: "test\n", wire.SnapshotServerConfig: "[tcp]\n", wire.SnapshotServerLogs: "",
		}}
	})
	p := r.signedIn()
	for _, c := range []struct {
		name  string
		body  []byte
		names []string
	}{
		{"all, without those that cannot be had", snapshotBody(wire.SnapshotStored, wire.SnapshotAll), []string{"test.txt", "server_logs.txt", "server_config.txt"}},
		{"deflated", snapshotBody(wire.SnapshotDeflated, wire.SnapshotTest), []string{"test.txt"}},
		{"twice the same", snapshotBody(wire.SnapshotStored, wire.SnapshotServerConfig, wire.SnapshotServerConfig), []string{"server_config.txt"}},
		{"none", snapshotBody(wire.SnapshotStored), nil},
	} {
		names, texts := unpack(t, p.mustRead(wire.CommandGetSnapshot, c.body))
		if !slices.Equal(names, c.names) {
			t.Errorf("%s: %v, want %v", c.name, names, c.names)
		}
		if i := slices.Index(names, "test.txt"); i >= 0 && texts[i] != "test\n" {
			t.Errorf("%s: test.txt says %q", c.name, texts[i])
		}
	}
	for name, c := range map[string]struct {
		body []byte
		want galgo.Code
	}{
		"unknown method":       {[]byte{7, 1, 4}, galgo.CodeInvalidCommand},
		"no method":            {[]byte{0, 1, 4}, galgo.CodeInvalidCommand},
		"unknown section":      {[]byte{1, 1, 7}, galgo.CodeInvalidCommand},
		"all and another":      {[]byte{1, 2, 100, 4}, galgo.CodeInvalidCommand},
		"fewer than announced": {[]byte{1, 2, 4}, galgo.CodeInvalidCommand},
		"method without a use": {snapshotBody(wire.SnapshotXz, wire.SnapshotTest), galgo.CodeFeatureUnavailable},
	} {
		if _, code := p.read(wire.CommandGetSnapshot, c.body); code != c.want {
			t.Errorf("%s: %v, want %v", name, code, c.want)
		}
	}
	r.node.addUser(t, "reader", "secret", true, &galgo.Permissions{})
	other := r.connect()
	other.login("reader", "secret")
	if _, code := other.read(wire.CommandGetSnapshot, snapshotBody(wire.SnapshotStored, wire.SnapshotTest)); code != galgo.CodeUnauthorized {
		t.Errorf("without permission: %v", code)
	}
}

// One snapshot at a time, and none that passes a frame; a long section is cut.
func TestSnapshotIsBounded(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	long := string(bytes.Repeat([]byte("0123456789abcdef"), (snapshotSectionMax>>4)+1))
	r := newRig(t, func(o *Options) {
		o.FrameMax = 24 << 20
		o.Diagnostics = sections{
			text: map[wire.SnapshotType]string{wire.SnapshotTest: "test\n", wire.SnapshotServerLogs: long, wire.SnapshotServerConfig: long},
			collect: func(s wire.SnapshotType) {
				if s == wire.SnapshotTest {
					inside <- struct{}{}
					<-leave
				}
			},
		}
	})
	p, q := r.signedIn(), r.signedIn()
	p.send(p.commandHeader(wire.CommandGetSnapshot), snapshotBody(wire.SnapshotStored, wire.SnapshotTest))
	<-inside
	if _, code := q.read(wire.CommandGetSnapshot, snapshotBody(wire.SnapshotStored)); code != galgo.CodeSnapshotFileCompletionFailed {
		t.Errorf("beside another one: %v", code)
	}
	close(leave)
	if _, code := p.parsed(p.receive()); code != 0 {
		t.Error(code)
	}
	_, texts := unpack(t, q.mustRead(wire.CommandGetSnapshot, snapshotBody(wire.SnapshotDeflated, wire.SnapshotServerLogs)))
	if len(texts) != 1 || len(texts[0]) != snapshotSectionMax {
		t.Errorf("the long section has %d bytes, want %d", len(texts[0]), snapshotSectionMax)
	}
	if _, code := q.read(wire.CommandGetSnapshot, snapshotBody(wire.SnapshotStored, wire.SnapshotServerLogs, wire.SnapshotServerConfig)); code != galgo.CodeSnapshotFileCompletionFailed {
		t.Errorf("more than a frame holds: %v", code)
	}
	q.alive()
}
