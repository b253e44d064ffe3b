package simtest

import (
	"sync"
	"sync/atomic"
	"time"
)

// bareMajority cuts what a host sends to others, but for as many as make a majority with it.
func (n *nemesis) bareMajority(p, _ *Peer) (undo func()) {
	others := n.c.Others(p)
	n.c.rng.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	others = others[:len(others)/2]
	for _, other := range others {
		n.c.Net.Cut(p.Name, other.Name)
	}
	return func() {
		for _, other := range others {
			n.c.Net.Mend(p.Name, other.Name)
		}
	}
}

// stalls holds one of the two streams by which a leader proves that it leads.
func stalls(heartbeats bool) func(*nemesis, *Peer, *Peer) func() {
	return func(n *nemesis, p, _ *Peer) func() {
		n.c.Net.Stall(p.Name, heartbeats, true)
		return func() { n.c.Net.Stall(p.Name, heartbeats, false) }
	}
}

// cutAtSwap cuts a host off when it has proven that it leads, holds up its write as long as
// it may be without lapsing, and stops its process right after: the door shuts as late as
// it can.
func (n *nemesis) cutAtSwap(p, _ *Peer) (undo func()) {
	proc := p.run.Load()
	if proc == nil {
		return nil
	}
	late := between(n.c.rng, 0, p.Kernel.lease*2/3)
	cut := []func(string){n.c.Net.Isolate, n.c.Net.IsolateOutbound, n.c.Net.IsolateInbound}[n.c.rng.IntN(3)]
	var met atomic.Bool
	p.Kernel.onWrite(func(what string) {
		switch {
		case what == "swap" && met.CompareAndSwap(false, true):
			cut(p.Name)
			time.Sleep(late) // in a bubble
		case what == "swapped" && met.Load():
			proc.gate.Pause()
		}
	})
	return func() {
		p.Kernel.onWrite(nil)
		n.c.Net.Reconnect(p.Name)
		proc.gate.Resume()
	}
}

// freeze stops a host with its kernel, at most for as long as its firewall.freeze says. Its
// process stands still until the fault is over: in a frozen guest it would take no time to
// have passed, and the simulated one sees that it has.
func (n *nemesis) freeze(p, _ *Peer) (undo func()) {
	proc := p.run.Load()
	if proc == nil {
		return nil
	}
	if proc.gate.Pause(); !p.Kernel.freezes() {
		proc.gate.Resume()
		return nil
	}
	var once sync.Once
	thaw := func() { once.Do(p.Kernel.thaw) }
	time.AfterFunc(p.Kernel.freeze, thaw)
	return func() {
		thaw()
		proc.gate.Resume()
	}
}

// occupyKernel makes calls into a host's kernel wait for a while.
func (n *nemesis) occupyKernel(p, _ *Peer) (undo func()) {
	p.Kernel.occupy(between(n.c.rng, shortestFault, 700*time.Millisecond))
	return func() {}
}
