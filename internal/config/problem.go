package config

import (
	"errors"
	"strings"
)

// Kinds of problems, for errors.Is.
var (
	// ErrUnknown: no such key, flag or variable.
	ErrUnknown = errors.New("unknown")
	// ErrInvalid: the value is malformed, out of bounds or in conflict with another.
	ErrInvalid = errors.New("invalid")
	// ErrUnavailable: the key belongs to a part that galgo does not have yet.
	ErrUnavailable = errors.New("not available yet")
	// ErrMoved: the key is one of an earlier release and has a successor or none.
	ErrMoved = errors.New("no longer a key")
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Kind  error  // one of the sentinels above
	Key   string // dotted key, flag or variable
	Value string // as given, "******" for a secret; empty where it does not matter
	Where string // file:line, variable or flag; empty for a Config that was made by hand
	Want  string // what would be right
}

// Error names the key, the value, where it came from and what would be right.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString("config: ")
	if p.Where != "" && p.Where != p.Key {
		b.WriteString(p.Where + ": ")
	}
	switch p.Kind {
	case ErrUnknown:
		b.WriteString("unknown " + p.Key)
	case ErrUnavailable:
		b.WriteString("not available yet: " + p.Key + p.shownValue())
	case ErrMoved:
		b.WriteString(p.Key + " is no longer a key")
	default:
		b.WriteString(p.Key + p.shownValue())
	}
	if p.Want != "" {
		b.WriteString(": " + p.Want)
	}
	return b.String()
}

func (p *Problem) shownValue() string {
	const valueMax = 200 // keeps a pasted file out of a message
	if len(p.Value) > valueMax {
		return " = " + quoteTOML(p.Value[:valueMax]) + "…"
	}
	return " = " + quoteTOML(p.Value)
}

// Unwrap returns the kind.
func (p *Problem) Unwrap() error { return p.Kind }

// join turns problems into one error, nil if there are none.
func join(problems []*Problem) error {
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}
