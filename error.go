package galgo

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// String is the name of the code, the same in every SDK of the protocol.
func (c Code) String() string {
	if c == CodeOK {
		return "Ok"
	}
	if info, ok := c.info(); ok {
		return info.name
	}
	return fmt.Sprintf("Code(%d)", uint32(c))
}

// Text says in one line what the code means.
func (c Code) Text() string {
	if info, ok := c.info(); ok {
		return info.text
	}
	return "unknown code"
}

// Known reports whether the protocol defines c. A client shows a code it does not
// know as CodeError.
func (c Code) Known() bool {
	_, ok := c.info()
	return ok
}

// Retriable reports whether the server asks for the same request again.
// CodeTransientNotCommitted leaves the outcome open, so it may be repeated only
// with the same number on the same session; CodeTransientNotAccepted was never
// admitted and may be repeated anywhere.
func (c Code) Retriable() bool {
	return c == CodeTransientNotCommitted || c == CodeTransientNotAccepted
}

func (c Code) info() (codeInfo, bool) {
	i, ok := slices.BinarySearchFunc(codeTable, c, func(e codeInfo, c Code) int { return cmp.Compare(e.code, c) })
	if !ok {
		return codeInfo{}, false
	}
	return codeTable[i], true
}

// Error is a failure a client may act on. Two Errors match when their codes do.
type Error struct {
	Code   Code   // travels on the wire
	Detail string // for people: does not travel, is never parsed, holds no secret
}

// Errorf returns an Error with a formatted detail. It does not wrap.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Error names the code, its number and the detail, or the meaning if there is none.
func (e *Error) Error() string {
	detail := e.Detail
	if detail == "" {
		detail = e.Code.Text()
	}
	return fmt.Sprintf("%s (%d): %s", e.Code, uint32(e.Code), detail)
}

// Is reports whether target is an Error with the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// CodeOf finds the code that err carries, if it carries one.
func CodeOf(err error) (Code, bool) {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code, true
	}
	return CodeOK, false
}
