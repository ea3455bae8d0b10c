package shard

// later runs what failed again after a pause.
type later struct{ waiting []postponed }

type postponed struct {
	ticks int
	f     func()
}

// laterTicks is the pause.
const laterTicks = 50

func (l *later) add(f func()) { l.waiting = append(l.waiting, postponed{laterTicks, f}) }

func (l *later) tick() {
	for i := range l.waiting {
		l.waiting[i].ticks--
	}
	for len(l.waiting) > 0 && l.waiting[0].ticks <= 0 {
		f := l.waiting[0].f
		l.waiting = l.waiting[1:]
		f()
	}
}
