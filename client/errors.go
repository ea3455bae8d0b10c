package client

import (
	"errors"
	"fmt"

	"galgo"
)

// Why a call ended without an answer from the server. They are wrapped in [*Error].
var (
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("client: closed")
	// ErrDisconnected: there is no connection, or it broke while the call could
	// not be repeated.
	ErrDisconnected = errors.New("client: connection lost")
	// ErrSessionLost: the connection broke during an operation on metadata, and the
	// server no longer knows the session under which it could be repeated safely.
	// Look at the state before doing it again.
	ErrSessionLost = errors.New("client: the server forgot the session")
	// ErrRetryBudget: the call was repeated for as long as WithRetryBudget allows.
	ErrRetryBudget = errors.New("client: retry budget spent")
	// ErrAnswerTimeout: a request stayed unanswered for as long as WithAnswerTimeout
	// allows, so the connection was given up.
	ErrAnswerTimeout = errors.New("client: no answer in time")
	// ErrProtocol: the server sent what the protocol does not allow.
	ErrProtocol = errors.New("client: malformed answer")
)

// Outcome says whether a call that returned an error took effect.
type Outcome uint8

// The outcomes.
const (
	// NotApplied: the call changed nothing and will not.
	NotApplied Outcome = iota
	// Unknown: it may have taken effect, or still take it.
	Unknown
	// Applied: it took effect, but its result is no longer known.
	Applied
)

// String is the outcome in words.
func (o Outcome) String() string {
	switch o {
	case NotApplied:
		return "not applied"
	case Unknown:
		return "outcome unknown"
	case Applied:
		return "applied"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Error is a call that did not succeed.
type Error struct {
	Call    string // what was called, as "create stream"
	Outcome Outcome
	Err     error // a *galgo.Error, a context error or one of the errors above, wrapped
}

// Error names the call, what is known of its outcome and the reason.
func (e *Error) Error() string {
	if e.Outcome == NotApplied {
		return fmt.Sprintf("%s: %v", e.Call, e.Err)
	}
	return fmt.Sprintf("%s (%s): %v", e.Call, e.Outcome, e.Err)
}

// Unwrap is the reason.
func (e *Error) Unwrap() error { return e.Err }

// OutcomeOf tells what is known of the effect of the call that returned err. A nil
// error is Applied; an error of another package tells nothing.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Applied
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Outcome
	}
	return Unknown
}

// refused reports whether err is an answer of the server with this code.
func refused(err error, code galgo.Code) bool {
	got, ok := galgo.CodeOf(err)
	return ok && got == code
}
