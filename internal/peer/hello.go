package peer

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// The versions of the links that this galgo speaks. Two nodes use the highest that both
// know, so that a cluster can be upgraded node by node; what is in a frame belongs to
// the version.
const (
	VersionMin = 1
	VersionMax = 1
)

// Phase says how far a node has come in its cluster's life. A node that begins tells it
// to the others, and asks theirs; docs/decisions/0018 says why.
type Phase uint8

// Phases. A node in the first two has promised nothing to anybody.
const (
	Empty  Phase = iota // its disk was never formatted
	Formed              // its disk is formatted
	Begun               // it takes part: it may have promised something
	phases
)

// String names the phase.
func (p Phase) String() string {
	return [...]string{"empty", "formed", "begun", "unknown"}[min(p, phases)]
}

// Lane is one of the two connections from a node to another.
type Lane uint8

// Lanes.
const (
	Control Lane = iota
	Bulk
	lanes
)

// String names the lane.
func (l Lane) String() string { return [...]string{"control", "bulk", "unknown"}[min(l, lanes)] }

// handshakeMagic begins the first message of both sides.
const handshakeMagic = "GALGOLNK"

const (
	nonceSize     = 32
	macSize       = sha256.Size
	nameMax       = 255
	helloSize     = 104 // and the names
	challengeSize = 48  // what its proof covers
	verdictSize   = 24  // as above
)

const flagProves = 1 // the sender proves that it knows the secret, and wants it proven

// hello is the first message, from who dialed. All integers are little-endian.
//
//	off  size  field
//	  0     8  magic        "GALGOLNK"
//	  8     2  version min  of the links
//	 10     2  version max
//	 12     1  lane
//	 13     1  from         replica
//	 14     1  to           replica
//	 15     1  flags        1: the sender proves that it knows the secret
//	 16    16  cluster
//	 32    16  roster       digest: which name has which replica id
//	 48     8  life         number of the sender's life, see vsr.Config.Boot
//	 56     1  phase
//	 57     1  length of the name of the cluster
//	 58     1  length of the name of the sender
//	 59     5  reserved     zero
//	 64     8  last         life that the sender's disk knew of before this one
//	 72    32  nonce
//	104     n  the names
type hello struct {
	versionMin, versionMax uint16
	lane                   Lane
	from, to               uint8
	proves                 bool
	cluster, roster        [16]byte
	life, last             uint64
	phase                  Phase
	clusterName, name      string
	nonce                  [nonceSize]byte
}

// challenge answers it.
//
//	off  size  field
//	  0     8  magic        "GALGOLNK"
//	  8     2  version      that is spoken from now on; 0: none is known to both
//	 10     2  version min  of the sender
//	 12     2  version max
//	 14     1  flags        as above
//	 15     1  reserved     zero
//	 16    32  nonce
//	 48    32  proof        zero without a secret
type challenge struct {
	version, versionMin, versionMax uint16
	proves                          bool
	nonce                           [nonceSize]byte
}

// verdict ends the handshake, after the proof of who dialed.
//
//	off  size  field
//	  0     1  status
//	  1     7  reserved     zero
//	  8     8  life         of the one who dialed, the latest that is known; 0: none
//	 16     8  own life     of the sender
//	 24    32  proof        zero without a secret
type verdict struct {
	status    status
	life, own uint64
}

// status says whether a connection is taken.
type status uint8

const (
	statusWelcome status = iota
	statusCluster
	statusRoster
	statusReplica
	statusLife
	statusPast
	statuses
)

// lifeMax bounds the numbers of lives, so that there is always a later one. Times in µs
// do not come near it.
const lifeMax = 1 << 62

// Errors of the handshake.
var (
	ErrHandshake = errors.New("peer: the other end does not speak the protocol of galgo's links")
	ErrVersion   = errors.New("peer: no version of the links is known to both nodes; upgrade one release at a time")
	ErrProof     = errors.New("peer: the other node does not know cluster.auth.shared_secret")
	ErrNoProof   = errors.New("peer: one of the two nodes has cluster.auth.enabled, the other has not")
	ErrCluster   = errors.New("peer: the other node belongs to another cluster; check cluster.name and the address of the node")
	ErrRoster    = errors.New("peer: the other node has another roster; name and replica_id of all nodes must be the same on all")
	ErrReplica   = errors.New("peer: the other node is not the replica that the roster has at its address")
	ErrLife      = errors.New("peer: the other node knows a later life of this one; is the replica running twice?")
	ErrCrowded   = errors.New("peer: it did not introduce itself, and others came: its place was given to one of them")
	ErrPast      = errors.New("peer: the disk of this node is of the past: it does not know a life that the other node has heard; a copy that was put back may have forgotten promises, so empty the data directory and start with --replace")
)

var statusErrors = [...]error{
	statusWelcome: nil, statusCluster: ErrCluster, statusRoster: ErrRoster, statusReplica: ErrReplica, statusLife: ErrLife, statusPast: ErrPast,
}

func (s status) err() error {
	if s >= statuses {
		return fmt.Errorf("%w: it refuses with the unknown status %d", ErrHandshake, s)
	}
	return statusErrors[s]
}

func (h *hello) append(b []byte) []byte {
	le := binary.LittleEndian
	b = append(b, handshakeMagic...)
	b = le.AppendUint16(b, h.versionMin)
	b = le.AppendUint16(b, h.versionMax)
	b = append(b, byte(h.lane), h.from, h.to, flags(h.proves))
	b = append(b, h.cluster[:]...)
	b = append(b, h.roster[:]...)
	b = le.AppendUint64(b, h.life)
	b = append(b, byte(h.phase), byte(len(h.clusterName)), byte(len(h.name)), 0, 0, 0, 0, 0)
	b = le.AppendUint64(b, h.last)
	b = append(b, h.nonce[:]...)
	b = append(b, h.clusterName...)
	return append(b, h.name...)
}

func flags(proves bool) byte {
	if proves {
		return flagProves
	}
	return 0
}

// helloNames is how many bytes follow the fixed part of a hello.
func helloNames(b []byte) (int, error) {
	if len(b) < helloSize || string(b[:8]) != handshakeMagic {
		return 0, fmt.Errorf("%w: it begins with %q", ErrHandshake, b[:min(len(b), 8)])
	}
	return int(b[57]) + int(b[58]), nil
}

// decodeHello reads a whole hello. Only what every version has in common is looked at
// closely: the rest may mean something to a later one.
func decodeHello(b []byte) (hello, error) {
	names, err := helloNames(b)
	if err != nil {
		return hello{}, err
	}
	if len(b) != helloSize+names {
		return hello{}, fmt.Errorf("%w: a hello of %d bytes, want %d", ErrHandshake, len(b), helloSize+names)
	}
	le := binary.LittleEndian
	h := hello{
		versionMin: le.Uint16(b[8:]), versionMax: le.Uint16(b[10:]), lane: Lane(b[12]), from: b[13], to: b[14], proves: b[15]&flagProves != 0,
		cluster: [16]byte(b[16:32]), roster: [16]byte(b[32:48]), life: le.Uint64(b[48:]), phase: Phase(b[56]), last: le.Uint64(b[64:]), nonce: [nonceSize]byte(b[72:104]),
		clusterName: string(b[helloSize : helloSize+int(b[57])]), name: string(b[helloSize+int(b[57]):]),
	}
	if h.versionMin == 0 || h.versionMin > h.versionMax || h.lane >= lanes || h.phase >= phases || h.life > lifeMax {
		return hello{}, fmt.Errorf("%w: versions %d..%d, lane %d, phase %d, life %d", ErrHandshake, h.versionMin, h.versionMax, h.lane, h.phase, h.life)
	}
	return h, nil
}

func (c *challenge) append(b []byte) []byte {
	le := binary.LittleEndian
	b = append(b, handshakeMagic...)
	b = le.AppendUint16(b, c.version)
	b = le.AppendUint16(b, c.versionMin)
	b = le.AppendUint16(b, c.versionMax)
	b = append(b, flags(c.proves), 0)
	return append(b, c.nonce[:]...)
}

func decodeChallenge(b []byte) (challenge, error) {
	if len(b) != challengeSize || string(b[:8]) != handshakeMagic {
		return challenge{}, fmt.Errorf("%w: it answers with %q", ErrHandshake, b[:min(len(b), 8)])
	}
	le := binary.LittleEndian
	return challenge{
		version: le.Uint16(b[8:]), versionMin: le.Uint16(b[10:]), versionMax: le.Uint16(b[12:]),
		proves: b[14]&flagProves != 0, nonce: [nonceSize]byte(b[16:48]),
	}, nil
}

func (v verdict) append(b []byte) []byte {
	b = append(b, byte(v.status), 0, 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, v.life)
	return binary.LittleEndian.AppendUint64(b, v.own)
}

func decodeVerdict(b []byte) (verdict, error) {
	if len(b) != verdictSize {
		return verdict{}, fmt.Errorf("%w: a verdict of %d bytes", ErrHandshake, len(b))
	}
	v := verdict{status: status(b[0]), life: binary.LittleEndian.Uint64(b[8:]), own: binary.LittleEndian.Uint64(b[16:])}
	if v.own > lifeMax {
		return verdict{}, fmt.Errorf("%w: a verdict of life %d", ErrHandshake, v.own)
	}
	return v, nil
}

// commonVersion is the highest version that both ends know; 0 if there is none.
func commonVersion(least, most uint16) uint16 {
	v := min(most, VersionMax)
	if v < max(least, VersionMin) {
		return 0
	}
	return v
}

// rosterDigest names which node is which replica. Addresses are left out: a node may
// move while the others still have its old address.
func rosterDigest(names []string) (digest [16]byte) {
	h := sha256.New()
	h.Write([]byte("galgo roster\n"))
	for id, name := range names {
		fmt.Fprintf(h, "%d %q\n", id, name)
	}
	copy(digest[:], h.Sum(nil))
	return digest
}
