package shard

// account keeps the sum of what the partitions of the shard hold in memory within
// its bound. A partition keeps its newest batches for readers; over thousands of
// them that adds up, so the ones that were written to longest ago give theirs
// back: what no file has yet is written first.
func (d *Data) account(g *dataGroup) {
	now := int64(g.machine.Stats().Figures().Resident)
	d.resident += now - g.resident
	g.resident = now
	if now > 0 && !g.holds {
		g.holds = true
		d.holding = append(d.holding, g)
	}
}

// relieve takes memory back while there is too much in use.
func (d *Data) relieve() {
	for n := len(d.holding); n > 0 && d.resident > d.cfg.TailsBytes; n-- {
		g := d.holding[0]
		d.holding[0] = nil
		d.holding = d.holding[1:]
		g.holds = false
		if g.gone {
			d.resident -= g.resident
			g.resident = 0
			continue
		}
		if j := g.machine.NextWrite(true); j != nil {
			d.run(g, j.Run, func(err error) { g.machine.WriteDone(j, err) })
		}
		g.machine.Trim(0)
		d.account(g)
	}
}
