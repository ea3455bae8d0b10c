package wire

import (
	"testing"

	"galgo"
)

// What is too long is refused by its length, before it is decoded.
func TestPermissionsAreBounded(t *testing.T) {
	p := &galgo.Permissions{Streams: make([]galgo.StreamPermissions, (PermissionsMax-11)/12)}
	for n := range p.Streams {
		p.Streams[n].StreamID = uint32(n)
	}
	body := func() []byte { return UpdatePermissionsRequest{User: galgo.NumericID(1), Permissions: p}.Append(nil) }
	if _, err := DecodeUpdatePermissionsRequest(body()); err != nil || PermissionsSize(p) > PermissionsMax {
		t.Errorf("%d bytes: %v", PermissionsSize(p), err)
	}
	p.Streams = append(p.Streams, galgo.StreamPermissions{StreamID: 1 << 20})
	if _, err := DecodeUpdatePermissionsRequest(body()); err == nil {
		t.Errorf("%d bytes decode, limit %d", PermissionsSize(p), PermissionsMax)
	}
}
