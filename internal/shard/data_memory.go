package shard

// account keeps the sum of what the partitions of the shard hold in memory within
// its bound. A partition keeps its newest batches for readers; over thousands of
// them that adds up, so the ones that were written to longest ago give theirs
// back: what no file has yet is written first.
func (d *Data) account(g *dataGroup) {
	now := int64(g.machine.Stats().Figures().Resident)
	grown := now > g.resident
	d.resident += now - g.resident
	g.resident = now
	switch {
	case now == 0:
		d.release(g)
	case g.holds == nil:
		g.holds = d.holding.PushBack(g)
	case grown:
		d.holding.MoveToBack(g.holds)
	}
}

// release takes a group out of the account.
func (d *Data) release(g *dataGroup) {
	d.resident -= g.resident
	g.resident = 0
	if g.holds != nil {
		d.holding.Remove(g.holds)
		g.holds = nil
	}
}

// relieve takes memory back while there is too much in use. What a group has not
// written yet stays until it is: then the group comes by here again. No more groups
// are asked than are needed, counting those whose writes are under way.
func (d *Data) relieve() {
	leaving := int64(0)
	for e := d.holding.Front(); e != nil && d.resident-leaving > d.cfg.TailsBytes; {
		g := e.Value.(*dataGroup)
		e = e.Next()
		if g.pause == 0 {
			d.writeSegments(g, true)
		}
		g.machine.Trim(0)
		d.account(g)
		if g.pause == 0 {
			leaving += g.resident
		}
	}
}
