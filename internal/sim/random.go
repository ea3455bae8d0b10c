package sim

import "math/rand/v2"

// part is a part of the simulation with a stream of chance of its own, so that one
// more draw in one of them does not shift the others.
type part uint64

const (
	partPlan part = iota + 1
	partNetwork
	partNemesis
	partRecovery // how long nodes stay down
	partClients
	partSettings
	partTargets // which of the faults that wait for their moment a run has
	partDance
	partAmbush
	partEcho
	partStray
	partNode                       // and above: several for each node
	partDamage part = 1<<16 + iota // bytes of a disk that are not what was written
	partDecay
	partTwins
	partDoubt
)

// partKeys is apart, so that the streams of nodes keep their numbers: whether a node seals
// its disk, and the nonces of the nodes.
const partKeys part = 1 << 32

// Streams of a node.
const (
	nodeLoops = iota // how long loops take
	nodeDisk         // how long jobs take
	nodeCrash        // what is left of them
	nodeClock
	nodeEngine // Options.Random
	nodeStreams
)

func ofNode(id uint8, which int) part { return partNode + part(int(id)*nodeStreams+which) }

// stream returns the chance of one part of a run.
func stream(seed uint64, p part) *rand.Rand {
	return rand.New(rand.NewPCG(mix(seed), mix(uint64(p)^0x9e3779b97f4a7c15)))
}

// mix spreads neighbouring numbers over all of them (splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// between draws from low..high.
func between(r *rand.Rand, low, high int64) int64 {
	if high <= low {
		return low
	}
	return low + r.Int64N(high-low+1)
}

// oneIn is true once in n times; never for 0.
func oneIn(r *rand.Rand, n int) bool { return n > 0 && r.IntN(n) == 0 }

// pick draws an element.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }
