package engine

import (
	"testing"

	"galgo/internal/vsr"
)

// What a client was told of is there before the metadata are said to be of now.
func TestMetadataWithoutWhatWasToldAreNotCurrent(t *testing.T) {
	e := &Engine{}
	e.current.Store(true)
	e.commit.Store(5)
	e.Told(uint64(vsr.MetadataGroup), 5)
	if !e.Current() {
		t.Error("what was told is here")
	}
	e.Told(uint64(vsr.MetadataGroup), 7)
	e.Told(uint64(vsr.MetadataGroup), 6)
	e.commit.Store(6)
	if e.Current() {
		t.Error("current without op 7")
	}
	e.commit.Store(7)
	if !e.Current() {
		t.Error("not current with op 7")
	}
}
