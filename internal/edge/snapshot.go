package edge

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"slices"

	"galgo"
	"galgo/internal/metadata"
	"galgo/internal/wire"
)

// Diagnostics collects the sections of a snapshot: what somebody who looks for a
// fault wants to see, and no secret.
type Diagnostics interface {
	// Collect writes a section. It stops when a write fails.
	Collect(section wire.SnapshotType, w io.Writer) error
}

const (
	// snapshotSectionMax bounds a section in bytes, before it is compressed.
	snapshotSectionMax = 16 << 20
	// snapshotMax is about what an archive of all sections takes at most.
	snapshotMax = 2 * snapshotSectionMax
)

// snapshotEntries names the sections in the archive, in its order.
var snapshotEntries = []struct {
	section wire.SnapshotType
	name    string
}{
	{wire.SnapshotFilesystem, "filesystem_overview.txt"},
	{wire.SnapshotProcesses, "process_list.txt"},
	{wire.SnapshotResources, "resource_usage.txt"},
	{wire.SnapshotTest, "test.txt"},
	{wire.SnapshotServerLogs, "server_logs.txt"},
	{wire.SnapshotServerConfig, "server_config.txt"},
}

// snapshot packs diagnostics into a ZIP archive, one at a time.
func (a *reader) snapshot(body []byte) galgo.Code {
	m, err := wire.DecodeGetSnapshotRequest(body)
	switch {
	case err != nil:
		return galgo.CodeInvalidCommand
	case !a.allows(metadata.RuleServerInfo, 0, 0):
		return galgo.CodeUnauthorized
	case a.server.options.Diagnostics == nil, m.Compression > wire.SnapshotDeflated:
		// The other methods are known to clients, and have no writer here.
		return galgo.CodeFeatureUnavailable
	case !a.server.snapshot.TryLock():
		return galgo.CodeSnapshotFileCompletionFailed
	}
	defer a.server.snapshot.Unlock()
	if !a.reserve(snapshotMax) {
		return galgo.CodeTransientNotAccepted
	}
	archive, err := pack(a.server.options.Diagnostics, &m)
	if err != nil || wire.HeaderSize+len(archive) > int(a.server.options.FrameMax) {
		return galgo.CodeSnapshotFileCompletionFailed
	}
	a.body = archive
	return galgo.CodeOK
}

// pack makes the archive. A section that cannot be collected is left out.
func pack(d Diagnostics, m *wire.GetSnapshotRequest) ([]byte, error) {
	method := zip.Store
	if m.Compression == wire.SnapshotDeflated {
		method = zip.Deflate
	}
	var packed, section bytes.Buffer
	archive := zip.NewWriter(&packed)
	for _, e := range snapshotEntries {
		if !slices.Contains(m.Types, e.section) && !slices.Contains(m.Types, wire.SnapshotAll) {
			continue
		}
		section.Reset()
		err := d.Collect(e.section, &bounded{&section, snapshotSectionMax})
		if err != nil && !errors.Is(err, errSectionFull) {
			continue
		}
		w, err := archive.CreateHeader(&zip.FileHeader{Name: e.name, Method: method})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(section.Bytes()); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return packed.Bytes(), err
}

// errSectionFull ends a section that is longer than a snapshot may hold; what was
// written of it stays.
var errSectionFull = errors.New("edge: section of the snapshot is cut")

// bounded takes what fits.
type bounded struct {
	to   *bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.to.Write(p[:n])
	b.left -= n
	if n < len(p) {
		return n, errSectionFull
	}
	return n, nil
}
