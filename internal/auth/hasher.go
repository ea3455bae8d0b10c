package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
)

// Defaults of HasherOptions.
const (
	DefaultConcurrency = 2
	DefaultQueue       = 256
)

// ErrBusy says that as many computations wait as may: nothing was computed, the
// caller may try again later.
var ErrBusy = errors.New("auth: too many password checks are waiting, try again")

// HasherOptions bound the work of a Hasher. The zero value is usable.
type HasherOptions struct {
	Concurrency int       // computations at a time, each with Params.MemoryKiB of memory; 0: 2
	Queue       int       // callers that may wait for their turn; 0: 256
	Params      Params    // cost of new hashes; zero: DefaultParams
	Random      io.Reader // source of salts; nil: crypto/rand
}

// Hasher computes and checks hashes in bounded number. The computation runs on
// the goroutine of its caller; a Hasher starts none.
type Hasher struct {
	params Params
	random io.Reader
	places chan struct{} // holds a token for each caller inside, waiting or computing
	turns  chan struct{} // holds a token for each computation
	decoy  string        // a hash of nothing anybody knows, at the cost of new hashes
}

// NewHasher returns a Hasher. The error says which option is out of range or
// that the random source gave nothing.
func NewHasher(o HasherOptions) (*Hasher, error) {
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.Queue == 0 {
		o.Queue = DefaultQueue
	}
	if o.Params == (Params{}) {
		o.Params = DefaultParams()
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Concurrency < 0 || o.Queue < 0 {
		return nil, fmt.Errorf("auth: hasher: concurrency %d and queue %d must not be negative", o.Concurrency, o.Queue)
	}
	if err := o.Params.Validate(); err != nil {
		return nil, fmt.Errorf("auth: hasher: %w", err)
	}
	h := &Hasher{
		params: o.Params,
		random: o.Random,
		places: make(chan struct{}, o.Concurrency+o.Queue),
		turns:  make(chan struct{}, o.Concurrency),
	}
	return h, h.makeDecoy()
}

// makeDecoy builds a hash that no password is known for. Its key is random
// bytes, so building it costs no computation.
func (h *Hasher) makeDecoy() error {
	secret := make([]byte, SaltLen+keyLen)
	if _, err := io.ReadFull(h.random, secret); err != nil {
		return fmt.Errorf("auth: hasher: read random bytes: %w", err)
	}
	h.decoy = encoded{params: h.params, salt: secret[:SaltLen], key: secret[SaltLen:]}.String()
	return nil
}

// Hash returns the hash of a password under a fresh salt. Errors: ErrBusy, the
// context's, or the random source's.
func (h *Hasher) Hash(ctx context.Context, password []byte) (string, error) {
	var salt [SaltLen]byte
	if _, err := io.ReadFull(h.random, salt[:]); err != nil {
		return "", fmt.Errorf("auth: read salt: %w", err)
	}
	if err := h.enter(ctx); err != nil {
		return "", err
	}
	defer h.leave()
	return Hash(password, salt, h.params), nil
}

// Verify says whether password belongs to hash. Errors: ErrBusy, the context's,
// or ErrFormat.
func (h *Hasher) Verify(ctx context.Context, hash string, password []byte) (bool, error) {
	if err := h.enter(ctx); err != nil {
		return false, err
	}
	defer h.leave()
	return Verify(hash, password)
}

// VerifyNothing costs what Verify of a fresh hash costs and says no more than
// whether there was room for it. It stands in for users who do not exist, so
// that the time of an answer does not tell them from those who do.
func (h *Hasher) VerifyNothing(ctx context.Context, password []byte) error {
	_, err := h.Verify(ctx, h.decoy, password)
	return err
}

// enter waits for a turn; leave gives it back.
func (h *Hasher) enter(ctx context.Context) error {
	select {
	case h.places <- struct{}{}:
	default:
		return ErrBusy
	}
	select {
	case h.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		<-h.places
		return ctx.Err()
	}
}

func (h *Hasher) leave() {
	<-h.turns
	<-h.places
}
