package snapshot

import (
	"errors"
	"fmt"

	"galgo/internal/cipher"
)

// sealSections seals the data of each section by itself. A piece that was moved to another
// place, file, op or group does not open.
func sealSections(vault *cipher.Vault, h Header, sections []Section) []Section {
	sealed := make([]Section, len(sections))
	for i := range sections {
		s := &sections[i]
		plain := make([]byte, cipher.HeadSize, cipher.Overhead+s.Size())
		for _, piece := range s.Data {
			plain = append(plain, piece...)
		}
		plain = plain[:cap(plain)]
		vault.SealInPlace(plain, cipher.KindSection, about(h, i, s)...)
		sealed[i] = Section{Kind: s.Kind, Version: s.Version, Data: [][]byte{plain}}
	}
	return sealed
}

func about(h Header, i int, s *Section) []uint64 {
	return []uint64{h.Group, h.Op, uint64(i), uint64(s.Kind), uint64(s.Version)}
}

// Open opens what is sealed in a file that was verified. A file in the clear is refused
// where there is a vault. The error is a *SealError.
func (s *Snapshot) Open(vault *cipher.Vault) error {
	if !s.closed {
		if vault != nil {
			return &SealError{Name: s.Name, Part: "file", Err: cipher.ErrClear}
		}
		return nil
	}
	sections := make([]Section, len(s.Sections))
	for i := range s.Sections {
		sec := &s.Sections[i]
		plain, err := vault.Open(nil, sec.Data[0], cipher.KindSection, about(s.Header, i, sec)...)
		if err != nil {
			return &SealError{Name: s.Name, Part: sectionName(uint32(i), sec.Kind), Err: err}
		}
		sections[i] = Section{Kind: sec.Kind, Version: sec.Version, Data: [][]byte{plain[:len(plain):len(plain)]}}
	}
	s.Sections, s.closed = sections, false
	return nil
}

// Key returns the id of the key of a file that Decode returned, zero for one in the clear
// or without sections.
func (s *Snapshot) Key() (id cipher.ID) {
	if s.closed && len(s.Sections) > 0 {
		id, _ = cipher.IDOf(s.Sections[0].Data[0])
	}
	return id
}

// SealError: a file is as it was written and does not open. It wraps the cipher's error.
type SealError struct {
	Name string // of the file
	Part string // which section, or "file"
	Err  error
}

// Error names file, part, cause and the next step.
func (e *SealError) Error() string {
	next := stepRestore
	switch {
	case errors.Is(e.Err, cipher.ErrKeyMissing):
		next = "set system.encryption.enabled to true, and the key"
	case errors.Is(e.Err, cipher.ErrKeyUnknown):
		next = "add that key to system.encryption.older_keys"
	}
	return fmt.Sprintf("snapshot: %s: %s: %v; %s", e.Name, e.Part, e.Err, next)
}

// Unwrap returns the cipher's error.
func (e *SealError) Unwrap() error { return e.Err }
