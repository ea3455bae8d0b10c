package wire

import (
	"strconv"

	"galgo"
)

// EvictionReason says why a session ended.
type EvictionReason uint8

// The reasons. A server never sends 0.
const (
	EvictionNoSession               EvictionReason = 1
	EvictionClientReleaseTooLow     EvictionReason = 2
	EvictionClientReleaseTooHigh    EvictionReason = 3
	EvictionInvalidRequestOperation EvictionReason = 4
	EvictionInvalidRequestBody      EvictionReason = 5
	EvictionInvalidRequestBodySize  EvictionReason = 6
	EvictionSessionTooLow           EvictionReason = 7
	EvictionSessionReleaseMismatch  EvictionReason = 8
	EvictionInvalidCredentials      EvictionReason = 9
	EvictionInvalidToken            EvictionReason = 10
	EvictionUserInactive            EvictionReason = 11
	EvictionSessionError            EvictionReason = 12
	EvictionStaleClient             EvictionReason = 13
	EvictionIncompatibleProtocol    EvictionReason = 14
	EvictionMalformedLogin          EvictionReason = 15
)

// evictionReasons has the name and the code a client raises.
var evictionReasons = [...]struct {
	name string
	code galgo.Code
}{
	0:                               {"reserved", galgo.CodeInvalidCommand},
	EvictionNoSession:               {"no session", galgo.CodeUnauthenticated},
	EvictionClientReleaseTooLow:     {"client release too low", galgo.CodeInvalidCommand},
	EvictionClientReleaseTooHigh:    {"client release too high", galgo.CodeInvalidCommand},
	EvictionInvalidRequestOperation: {"invalid request operation", galgo.CodeInvalidCommand},
	EvictionInvalidRequestBody:      {"invalid request body", galgo.CodeInvalidCommand},
	EvictionInvalidRequestBodySize:  {"invalid request body size", galgo.CodeInvalidCommand},
	EvictionSessionTooLow:           {"session too low", galgo.CodeUnauthenticated},
	EvictionSessionReleaseMismatch:  {"session release mismatch", galgo.CodeUnauthenticated},
	EvictionInvalidCredentials:      {"invalid credentials", galgo.CodeInvalidCredentials},
	EvictionInvalidToken:            {"invalid token", galgo.CodeInvalidPersonalAccessToken},
	EvictionUserInactive:            {"user inactive", galgo.CodeUnauthenticated},
	EvictionSessionError:            {"session error", galgo.CodeUnauthenticated},
	EvictionStaleClient:             {"stale client", galgo.CodeStaleClient},
	EvictionIncompatibleProtocol:    {"incompatible protocol", galgo.CodeIncompatibleProtocolVersion},
	EvictionMalformedLogin:          {"malformed login", galgo.CodeInvalidFormat},
}

// Code is what a client raises for the reason; a reason it does not know is
// CodeInvalidCommand.
func (r EvictionReason) Code() galgo.Code {
	if int(r) < len(evictionReasons) {
		return evictionReasons[r].code
	}
	return galgo.CodeInvalidCommand
}

// String is the reason in words.
func (r EvictionReason) String() string {
	if int(r) < len(evictionReasons) {
		return evictionReasons[r].name
	}
	return "eviction reason " + strconv.Itoa(int(r))
}

// EvictionHeader is a whole eviction frame: it has no body. The session of the
// client is gone, its connection is not.
//
//	off  size  field
//	  0   128  as in a request, command 13, size 256
//	128    16  client       not zero
//	144     4  highest accepted version, only with EvictionIncompatibleProtocol
//	148     4  lowest accepted version, likewise
//	152   103  reserved
//	255     1  reason
type EvictionHeader struct {
	Cluster    [16]byte
	Client     galgo.ClientID
	VersionMax Version
	VersionMin Version
	Reason     EvictionReason
}

// Eviction makes the frame that ends a session for a reason. It fills the versions
// in if the reason has them.
func Eviction(client galgo.ClientID, reason EvictionReason) EvictionHeader {
	h := EvictionHeader{Client: client, Reason: reason}
	if reason == EvictionIncompatibleProtocol {
		h.VersionMax, h.VersionMin = VersionCurrent, VersionMin
	}
	return h
}

// DecodeEvictionHeader reads an eviction. The error is an ErrHeader.
func DecodeEvictionHeader(b []byte) (EvictionHeader, error) {
	if err := checkHeader(b, FrameEviction); err != nil {
		return EvictionHeader{}, err
	}
	h := EvictionHeader{
		VersionMax: Version(le.Uint32(b[144:])),
		VersionMin: Version(le.Uint32(b[148:])),
		Reason:     EvictionReason(b[255]),
	}
	copy(h.Cluster[:], b[offCluster:])
	copy(h.Client[:], b[128:])
	return h, nil
}

// Put writes the eviction over b, which has HeaderSize bytes.
func (h *EvictionHeader) Put(b []byte) {
	putPrefix(b, HeaderSize, FrameEviction)
	copy(b[offCluster:], h.Cluster[:])
	copy(b[128:], h.Client[:])
	le.PutUint32(b[144:], uint32(h.VersionMax))
	le.PutUint32(b[148:], uint32(h.VersionMin))
	b[255] = byte(h.Reason)
}

// Append appends the eviction to b.
func (h *EvictionHeader) Append(b []byte) []byte {
	b, p := grow(b, HeaderSize)
	h.Put(p)
	return b
}

// Err is the error a client raises for the eviction. A window of versions that
// cannot be is told as CodeUnauthenticated.
func (h *EvictionHeader) Err() *galgo.Error {
	if h.Reason != EvictionIncompatibleProtocol {
		return galgo.Errorf(h.Reason.Code(), "session ended by the server: %s", h.Reason)
	}
	if h.VersionMin == 0 || h.VersionMax < h.VersionMin {
		return galgo.Errorf(galgo.CodeUnauthenticated, "session ended by the server: protocol refused with versions %s to %s", h.VersionMin, h.VersionMax)
	}
	return galgo.Errorf(h.Reason.Code(), "server accepts protocol versions %s to %s, this client speaks %s", h.VersionMin, h.VersionMax, VersionCurrent)
}
