// Package freeport finds ports for servers that somebody else starts, and starts again,
// while other programs on this machine look for ports as well.
//
// To listen on port 0 and to close is not enough: until the server listens, and between
// two of its lives, the system gives the same port to the next who asks, be it for a
// connection that goes out.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports below those that systems give out on their own (32768 to 60999 on Linux, 49152
// and above elsewhere), in blocks: who listens on the first port of a block owns the
// others.
const (
	lowest    = 10240
	blockSize = 64
	blocks    = (32768 - lowest) / blockSize
)

// ErrNone is returned where every block has an owner.
var ErrNone = errors.New("freeport: no free port of the loopback interface between 10240 and 32767")

// owned is what this process has taken. The system gives it back when the process ends,
// however it ends.
var owned struct {
	sync.Mutex
	guards    []net.Listener // never closed, and kept: one that is collected is closed
	next, end int            // what is left of the last block
}

// Take returns n different ports of the loopback interface on which nobody listens, and
// which no caller of Take in any process is given before this process has ended.
func Take(n int) (ports []int, err error) {
	owned.Lock()
	defer owned.Unlock()
	for len(ports) < n {
		if owned.next == owned.end {
			if err := takeBlock(); err != nil {
				return nil, err
			}
		}
		if l, err := net.Listen("tcp", Loopback(owned.next)); err == nil {
			l.Close()
			ports = append(ports, owned.next)
		}
		owned.next++
	}
	return ports, nil
}

func takeBlock() error {
	first := rand.IntN(blocks)
	for i := range blocks {
		base := lowest + (first+i)%blocks*blockSize
		l, err := net.Listen("tcp", Loopback(base))
		if err != nil {
			continue
		}
		owned.guards = append(owned.guards, l)
		owned.next, owned.end = base+1, base+blockSize
		return nil
	}
	return ErrNone
}

// Loopback is the address of a port of the loopback interface.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
