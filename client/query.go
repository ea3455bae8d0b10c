package client

import (
	"context"
	"errors"
	"fmt"

	"galgo"
	"galgo/internal/wire"
)

// query runs a command whose answer has something to tell.
func query[T any](ctx context.Context, c *Client, name string, command wire.Command, body wire.Body, decode func([]byte) (T, error)) (T, error) {
	var none T
	a, err := c.do(ctx, c.newCall(name, command, body))
	if err != nil {
		return none, err
	}
	v, err := decode(a.payload)
	if err != nil {
		return none, undecodable(name, command, err)
	}
	return v, nil
}

// get runs a command that reads one thing, for which an empty answer means that
// there is none.
func get[T any](ctx context.Context, c *Client, name string, command wire.Command, body wire.Body, missing galgo.Code, decode func([]byte) (T, error)) (T, error) {
	return query(ctx, c, name, command, body, func(payload []byte) (T, error) {
		if len(payload) == 0 {
			var none T
			return none, &galgo.Error{Code: missing}
		}
		return decode(payload)
	})
}

// change runs a command whose answer tells only that it worked.
func (c *Client) change(ctx context.Context, name string, command wire.Command, body wire.Body) error {
	_, err := c.do(ctx, c.newCall(name, command, body))
	return err
}

// undecodable is an answer whose body makes no sense, or that says that there is
// nothing. What was asked has been done.
func undecodable(name string, command wire.Command, err error) error {
	outcome := Applied
	if command.Plane() == wire.PlaneLocal {
		outcome = NotApplied
	}
	if errors.Is(err, wire.ErrUndecodable) || errors.Is(err, wire.ErrBatch) {
		err = fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return &Error{Call: name, Outcome: outcome, Err: err}
}

// checkTarget refuses identifiers that cannot travel.
func checkTarget(name string, ids ...galgo.Identifier) error {
	for _, id := range ids {
		if err := id.Validate(); err != nil {
			return &Error{Call: name, Err: err}
		}
	}
	return nil
}

// checkName refuses a new name that cannot travel.
func checkName(call, name string) error {
	if err := galgo.ValidateName(name); err != nil {
		return &Error{Call: call, Err: err}
	}
	return nil
}
