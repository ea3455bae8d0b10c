package client

import (
	"context"
	"fmt"
	"time"

	"galgo"
)

// Delays between rounds of a call that the server asks to repeat.
const (
	retryDelayMin = 10 * time.Millisecond
	retryDelayMax = 250 * time.Millisecond
)

// do runs a call to its end: rounds until the server has answered for good, the
// context ends or the retry budget is spent. The answer's frame is the caller's.
func (c *Client) do(ctx context.Context, k *call) (answer, error) {
	if err := c.begin(ctx, k); err != nil {
		return answer{}, err
	}
	return c.finish(ctx, k)
}

// begin waits for a turn and submits the first round. After an error the call is
// over; otherwise finish must follow.
func (c *Client) begin(ctx context.Context, k *call) error {
	if err := c.checkSize(k); err != nil {
		return &Error{Call: k.name, Err: err}
	}
	if err := c.acquire(ctx, k); err != nil {
		return &Error{Call: k.name, Err: err}
	}
	if err := c.ledger.submit(k); err != nil {
		c.surrender(k)
		return &Error{Call: k.name, Err: err}
	}
	return nil
}

// acquire waits for what a call needs before it may go out: its turn and a slot.
func (c *Client) acquire(ctx context.Context, k *call) error {
	if !c.acquireTurn(ctx, k) {
		return c.interrupted(ctx)
	}
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
	case <-c.done:
	}
	c.passTurn(k)
	return c.interrupted(ctx)
}

func (c *Client) acquireTurn(ctx context.Context, k *call) bool {
	switch k.rule {
	case replayNumbered:
		k.number = c.window.acquire(ctx, c.done)
		return k.number != 0
	case replayInSession:
		select {
		case c.metadataTurn <- struct{}{}:
		case <-ctx.Done():
			return false
		case <-c.done:
			return false
		}
	}
	return true
}

// interrupted is why a wait ended: the client did, or else the context.
func (c *Client) interrupted(ctx context.Context) error {
	if err := c.ledger.broken(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// passTurn lets others go on: this call is not repeated any more.
func (c *Client) passTurn(k *call) {
	switch k.rule {
	case replayNumbered:
		c.window.release(k.number)
	case replayInSession:
		<-c.metadataTurn
	}
}

// surrender ends a call that nobody but the caller knows any more.
func (c *Client) surrender(k *call) {
	if !c.ledger.writing(k) {
		c.frames.put(k.frame)
	}
	<-c.slots
	c.passTurn(k)
}

// finish waits for the answer to a call that begin submitted.
func (c *Client) finish(ctx context.Context, k *call) (answer, error) {
	budget := time.NewTimer(c.opts.retryBudget)
	defer budget.Stop()
	delay := retryDelayMin
	for {
		a, err := c.await(ctx, k, budget.C)
		if err != nil { // the ledger keeps the call, and its slot, until it is answered
			c.passTurn(k)
			return answer{}, err
		}
		if a.err == nil || a.settled || !c.repeats(k, a) {
			return c.settle(k, a)
		}
		if err := c.pause(ctx, jitter(delay), budget.C); err != nil {
			return c.settle(k, answer{err: fmt.Errorf("%w: %w", err, a.err)})
		}
		delay = min(2*delay, retryDelayMax)
		if err := c.ledger.submit(k); err != nil {
			return c.settle(k, answer{err: fmt.Errorf("%w: %w", err, a.err)})
		}
	}
}

// await waits for the end of a round. An error means that the call is abandoned.
func (c *Client) await(ctx context.Context, k *call, budget <-chan time.Time) (answer, error) {
	var err error
	select {
	case a := <-k.done:
		return a, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-budget:
		err = ErrRetryBudget
	}
	a, ended, outcome := c.ledger.abandon(k)
	if ended {
		return a, nil
	}
	if trouble := c.ledger.trouble(); trouble != nil {
		err = fmt.Errorf("%w: %w", err, trouble)
	}
	return answer{}, &Error{Call: k.name, Outcome: outcome, Err: err}
}

func (c *Client) pause(ctx context.Context, d time.Duration, budget <-chan time.Time) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-budget:
		return ErrRetryBudget
	case <-c.done:
		return c.ledger.broken()
	}
}

// repeats reports whether the answer asks for another round of the same bytes, and
// prepares for it.
func (c *Client) repeats(k *call, a answer) bool {
	code, _ := galgo.CodeOf(a.err)
	switch {
	case code == galgo.CodeTransientNotCommitted:
		if k.rule == replayNever {
			return false
		}
		c.ledger.doubt(k)
		return true
	case code == galgo.CodeTransientNotAccepted:
		return true
	case code == galgo.CodeUnauthenticated || code == galgo.CodeStaleClient:
		// The session is gone; the request was refused before it did anything.
		if !c.opts.signsIn() {
			return false
		}
		select {
		case c.suspect <- k.header.Session:
		default: // another call has said so
		}
		return true
	}
	return false
}

// settle hands the end of a call to its caller.
func (c *Client) settle(k *call, a answer) (answer, error) {
	answered := a.header.Operation != 0
	outcome := k.outcome(a.err, answered)
	c.surrender(k)
	if a.err != nil {
		return answer{}, &Error{Call: k.name, Outcome: outcome, Err: a.err}
	}
	return a, nil
}
