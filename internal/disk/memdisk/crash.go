package memdisk

import (
	"maps"
	"math/rand/v2"
	"slices"

	"galgo/internal/disk"
)

// Kill ends the process: the disk and its handles are dead, and the one returned
// has every byte that was written, synced or not. What was not synced can still
// be lost by a PowerLoss of the new disk. Faults, counters and the crash
// schedule are not taken along.
func (d *Disk) Kill() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	return d.clone()
}

// Clone returns a copy with the same bytes and the same things not yet synced,
// and leaves d running. Faults, counters and schedule are not taken along.
func (d *Disk) Clone() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clone()
}

// EvictCaches makes readers see what the device has, or will be given by the
// next Sync: lost and misdirected writes come to light.
func (d *Disk) EvictCaches() {
	d.mu.Lock()
	defer d.mu.Unlock()
	eachFile(d.root, (*node).evict)
}

// PowerLoss ends the machine: the disk and its handles are dead, and the one
// returned has what was synced and a mixture, drawn from rng, of what was not:
//
//   - of the changes to names since the last SyncDir any subset;
//   - of each file any length that it had since its last Sync;
//   - of each sector written since then any content that it had, or zeros in
//     place of the bytes that were written.
//
// With a nil rng all that was not synced is lost. d itself does not change, so
// it can be asked again for another mixture.
func (d *Disk) PowerLoss(rng *rand.Rand) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	after := d.clone()
	keepName := chance(rng)
	for _, c := range after.names {
		if c.durable() || keepName() {
			applyName(after.root, c)
		}
	}
	after.names = nil
	after.root.settle(rng, chance(rng))
	return after
}

// chance returns a coin with a bias of its own, so that "all kept" and "all
// lost" come up often, however many things are decided.
func chance(rng *rand.Rand) func() bool {
	if rng == nil {
		return func() bool { return false }
	}
	switch rng.IntN(4) {
	case 0:
		return func() bool { return false }
	case 1:
		return func() bool { return true }
	}
	bias := 1 + rng.IntN(7)
	return func() bool { return rng.IntN(8) < bias }
}

// settle makes the base tree the only truth, below a directory.
func (n *node) settle(rng *rand.Rand, mixed func() bool) {
	for _, name := range slices.Sorted(maps.Keys(n.base)) {
		child := n.base[name]
		if child.isDir {
			child.settle(rng, mixed)
			continue
		}
		child.loseCache(rng, mixed)
	}
	n.live = maps.Clone(n.base)
}

// loseCache leaves a file as a power loss might.
func (n *node) loseCache(rng *rand.Rand, keep func() bool) {
	if len(n.pending) > 0 && rng != nil {
		n.tear(rng, keep)
	}
	n.pending = nil
	n.cache = n.platter.share()
}

// tear gives each sector that was written, and the length, a state of its own.
func (n *node) tear(rng *rand.Rand, keep func() bool) {
	size, longest := n.platter.size, n.platter.size
	lengths := []int64{size}
	for _, c := range n.pending {
		size = c.size(size)
		longest = max(longest, size)
		lengths = append(lengths, size)
	}
	if keep = fileChance(rng, keep); rng.IntN(8) != 0 {
		size = lengths[version(rng, keep, len(n.pending))]
	} else {
		size = lengths[rng.IntN(len(lengths))]
	}
	touched := n.touched()
	torn := n.platter.share()
	torn.resize(longest)
	for _, sector := range slices.Sorted(maps.Keys(touched)) {
		var content [disk.Sector]byte
		n.platter.read(content[:], sector*disk.Sector)
		n.tearSector(rng, keep, sector*disk.Sector, touched[sector], content[:])
		torn.write(content[:], sector*disk.Sector)
	}
	torn.resize(size)
	n.platter = torn
}

// fileChance makes some files lose or keep all they have, amid a mixture.
func fileChance(rng *rand.Rand, keep func() bool) func() bool {
	switch rng.IntN(4) {
	case 0:
		whole := keep()
		return func() bool { return whole }
	default:
		return keep
	}
}

// version picks how many of n changes are in.
func version(rng *rand.Rand, keep func() bool, n int) int {
	if n > 1 && rng.IntN(4) == 0 {
		return rng.IntN(n + 1)
	}
	if keep() {
		return n
	}
	return 0
}

// touched maps each sector that was written since the last sync to the changes
// that wrote it, in order.
func (n *node) touched() map[int64][]change {
	sectors := map[int64][]change{}
	size := n.platter.size
	for _, c := range n.pending {
		from, to := c.off, c.off+int64(len(c.data))
		if c.truncate {
			from, to = min(size, c.off), size
		}
		size = c.size(size)
		for s := from / disk.Sector; s*disk.Sector < to; s++ {
			sectors[s] = append(sectors[s], c)
		}
	}
	return sectors
}

// tearSector plays some of the changes into the content of the sector at off.
func (n *node) tearSector(rng *rand.Rand, keep func() bool, off int64, changes []change, content []byte) {
	if rng.IntN(8) == 0 {
		for _, c := range changes {
			c.inSector(off, content, true)
		}
		return
	}
	for _, c := range changes[:version(rng, keep, len(changes))] {
		c.inSector(off, content, false)
	}
}

// inSector applies the part of c that falls into the sector at off; with zero it
// only clears the bytes that c writes.
func (c change) inSector(off int64, content []byte, zero bool) {
	if c.truncate {
		clear(content[max(0, min(disk.Sector, c.off-off)):])
		return
	}
	from, to := max(c.off, off), min(c.off+int64(len(c.data)), off+disk.Sector)
	if from >= to {
		return
	}
	if zero {
		clear(content[from-off : to-off])
		return
	}
	copy(content[from-off:to-off], c.data[from-c.off:])
}
