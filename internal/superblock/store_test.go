package superblock

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"galgo/internal/disk"
	"galgo/internal/disk/memdisk"
)

const testDir = "metadata"

// harness is a store of one implementation, as the shared tests see it.
type harness struct {
	store  Store
	reopen func(t *testing.T) Store
	fail   func(failing bool) // makes writes fail, or ends that
	during func(do func())    // runs do in the middle of the next write
}

var errTest = errors.New("test: told to fail")

func twoFileHarness(t *testing.T) *harness {
	var hook func()
	d := memdisk.New(memdisk.Options{OnCall: func(c memdisk.Call) {
		if do := hook; do != nil && c.Op == memdisk.OpSync {
			hook = nil
			do()
		}
	}})
	mkdir(t, d)
	return &harness{
		store:  open(t, d),
		reopen: func(t *testing.T) Store { return open(t, d) },
		fail: func(failing bool) {
			d.ClearFaults()
			if failing {
				d.Inject(memdisk.Fault{Class: memdisk.SyncFailure, Times: memdisk.Forever})
			}
		},
		during: func(do func()) { hook = do },
	}
}

func memHarness(*testing.T) *harness {
	m := &Mem{}
	return &harness{
		store:  m,
		reopen: func(*testing.T) Store { return m },
		fail: func(failing bool) {
			if m.Fail(nil); failing {
				m.Fail(errTest)
			}
		},
		during: func(do func()) { m.during = do },
	}
}

// eachStore runs a test against every implementation.
func eachStore(t *testing.T, test func(t *testing.T, h *harness)) {
	for _, c := range []struct {
		name string
		make func(*testing.T) *harness
	}{{"two files", twoFileHarness}, {"memory", memHarness}} {
		t.Run(c.name, func(t *testing.T) { test(t, c.make(t)) })
	}
}

func mkdir(t testing.TB, d disk.Disk) {
	t.Helper()
	must(t, d.MkdirAll(testDir))
}

func open(t testing.TB, d disk.Disk) *TwoFile {
	t.Helper()
	s, err := Open(d, testDir)
	must(t, err)
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v, want %v", what, err, want)
	}
}

func wantPresent(t testing.TB, s Store, sequence uint64, payload string) {
	t.Helper()
	o := s.Latest()
	if o.Kind != Present || o.Sequence != sequence || string(o.Payload) != payload {
		t.Fatalf("latest is %v, record %d, %q; want present, record %d, %q", o.Kind, o.Sequence, o.Payload, sequence, payload)
	}
}

func TestStoreFresh(t *testing.T) {
	eachStore(t, func(t *testing.T, h *harness) {
		if o := h.store.Latest(); o.Kind != Empty || o.Payload != nil || o.Err(testDir) != nil {
			t.Fatalf("a fresh store is %v with %q", o.Kind, o.Payload)
		}
	})
}

func TestStoreWriteAndReopen(t *testing.T) {
	eachStore(t, func(t *testing.T, h *harness) {
		for i, p := range []string{"one", "", "three", strings.Repeat("4", PayloadMax)} {
			must(t, h.store.Write([]byte(p)))
			wantPresent(t, h.store, uint64(i+1), p)
			h.store = h.reopen(t)
			wantPresent(t, h.store, uint64(i+1), p)
		}
	})
}

// storage.md §10.1, D-12.
func TestStorePayloadCeiling(t *testing.T) {
	eachStore(t, func(t *testing.T, h *harness) {
		must(t, h.store.Write([]byte("kept")))
		err := h.store.Write(make([]byte, PayloadMax+1))
		wantErr(t, "write above the ceiling", err, ErrPayload)
		if !strings.Contains(err.Error(), "4097 bytes of at most 4096") {
			t.Fatalf("error %q does not have the numbers", err)
		}
		wantPresent(t, h.store, 1, "kept")
		wantPresent(t, h.reopen(t), 1, "kept")
	})
}

func TestStorePayloadIsCopied(t *testing.T) {
	eachStore(t, func(t *testing.T, h *harness) {
		p := []byte("abc")
		must(t, h.store.Write(p))
		p[0] = 'x'
		h.store.Latest().Payload[1] = 'x'
		wantPresent(t, h.store, 1, "abc")
	})
}

func TestStoreFailsAndGoesOn(t *testing.T) {
	eachStore(t, func(t *testing.T, h *harness) {
		must(t, h.store.Write([]byte("one")))
		h.fail(true)
		for range 3 {
			if err := h.store.Write([]byte("two")); err == nil {
				t.Fatal("a write that had to fail succeeded")
			}
			wantPresent(t, h.store, 1, "one")
		}
		h.fail(false)
		wantPresent(t, h.reopen(t), 1, "one")
		must(t, h.store.Write([]byte("other two")))
		wantPresent(t, h.store, 2, "other two")
		wantPresent(t, h.reopen(t), 2, "other two")
	})
}

// storage.md §10.1, D-10.
func TestStoreOverlappingWritesPanic(t *testing.T) {
	eachStore(t, func(t *testing.T, h *harness) {
		h.during(func() {
			defer func() {
				if r, ok := recover().(string); !ok || !strings.Contains(r, "one writer") {
					t.Errorf("a second write during the first: %v, want a panic that says why", r)
				}
			}()
			h.store.Write([]byte("second"))
		})
		must(t, h.store.Write([]byte("first")))
		wantPresent(t, h.store, 1, "first")
		wantPresent(t, h.reopen(t), 1, "first")
	})
}

// storage.md §10.1, D-11: a write that is given up half-way does not latch the
// tripwire.
func TestStoreAbandonedWrite(t *testing.T) {
	eachStore(t, func(t *testing.T, h *harness) {
		must(t, h.store.Write([]byte("one")))
		h.during(func() { panic("abandoned") })
		func() {
			defer func() { recover() }()
			h.store.Write([]byte("two"))
			t.Error("the write was not abandoned")
		}()
		must(t, h.store.Write([]byte("three")))
		wantPresent(t, h.store, 2, "three")
		wantPresent(t, h.reopen(t), 2, "three")
	})
}

// A store that was written and one that is read agree on the bytes.
func TestLatestAgreesWithReopen(t *testing.T) {
	d := memdisk.New(memdisk.Options{})
	mkdir(t, d)
	s := open(t, d)
	for i := range 5 {
		must(t, s.Write(bytes.Repeat([]byte{byte(i)}, i*10)))
		a, b := s.Latest(), open(t, d).Latest()
		if a.Sequence != b.Sequence || !bytes.Equal(a.Payload, b.Payload) || a.Slots[0].String() != b.Slots[0].String() || a.Slots[1].String() != b.Slots[1].String() {
			t.Fatalf("after write %d: store has %v, files %v", i+1, a.Slots, b.Slots)
		}
	}
}
