package galgo

import "math/bits"

// Primes of XXH32, as its specification numbers them.
const (
	xxPrime1 uint32 = 2654435761
	xxPrime2 uint32 = 2246822519
	xxPrime3 uint32 = 3266489917
	xxPrime4 uint32 = 668265263
	xxPrime5 uint32 = 374761393
)

// HashKey is XXH32 with seed 0, which maps message keys to partitions and names of
// consumers to offset keys.
func HashKey(b []byte) uint32 {
	n := uint32(len(b))
	h := xxPrime5
	if len(b) >= 16 {
		h, b = hashStripes(b)
	}
	h += n
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+le.Uint32(b)*xxPrime3, 17) * xxPrime4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*xxPrime5, 11) * xxPrime1
	}
	h = (h ^ h>>15) * xxPrime2
	h = (h ^ h>>13) * xxPrime3
	return h ^ h>>16
}

// hashStripes takes whole stripes of 16 bytes off b and returns the rest.
func hashStripes(b []byte) (uint32, []byte) {
	p1, p2 := xxPrime1, xxPrime2 // variables, since constants may not wrap around
	acc := [4]uint32{p1 + p2, p2, 0, -p1}
	for ; len(b) >= 16; b = b[16:] {
		for lane := range acc {
			acc[lane] = bits.RotateLeft32(acc[lane]+le.Uint32(b[4*lane:])*p2, 13) * p1
		}
	}
	h := bits.RotateLeft32(acc[0], 1) + bits.RotateLeft32(acc[1], 7) +
		bits.RotateLeft32(acc[2], 12) + bits.RotateLeft32(acc[3], 18)
	return h, b
}
