package iptables

import (
	"context"
	"time"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Bounds of the watch.
const (
	// glanceEvery is how often it looks, at most.
	glanceEvery = time.Second
	// glanceShare is how many times as long as a look took it rests, so that
	// long lists do not make it take more than 2 % of a core.
	glanceShare = 50
	// restMost is how long it rests at most: a look is slow, too, where
	// others want the processors (seen: 9 s of rest after one), and a flush must
	// not go unseen meanwhile.
	restMost = 2 * time.Second
)

// Watch tells when packets may pass the rules by: after 'iptables -F', the start
// of a firewall that begins with it, or a rule that another program put in front
// of ours. The kernel reports no changes of the legacy back end, and those of the
// other one only among all else that is committed; so the watch reads INPUT and
// the chain that INPUT leads to. Changes of the lists are for a comparison in
// full to find.
type Watch struct {
	filter  *Filter
	changed chan struct{} // holds one: more changes before it is received are the same news
}

// Watch returns a watch that has not begun; Run runs it.
func (f *Filter) Watch() *Watch { return &Watch{filter: f, changed: make(chan struct{}, 1)} }

// Changed yields after each look that found packets passing the rules by, or
// rules that cannot be read; also again, since a program may insist on its rule
// and put it back between two looks. It is never closed.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// Run looks until ctx ends. One goroutine calls it, once.
func (w *Watch) Run(ctx context.Context) {
	pause := glanceEvery
	for pace.Wait(ctx, pause) {
		began := time.Now()
		w.checkRules(ctx)
		pause = restAfter(time.Since(began))
	}
}

// restAfter is how long the watch rests after a look that took so long.
func restAfter(took time.Duration) time.Duration {
	return min(max(glanceEvery, glanceShare*took), restMost)
}

// checkRules tells, if gated packets do not meet our rules.
func (w *Watch) checkRules(ctx context.Context) {
	if !w.filter.rulesAreMet(ctx) && ctx.Err() == nil {
		firewall.Tell(w.changed)
	}
}

// rulesAreMet reports whether gated packets of every family meet our rules. Rules that
// cannot be read count as not met: the receiver of Changed reads them and reports
// why. In the nf_tables back end it costs little, however long the lists are, to read INPUT
// and the chain that it leads to. In the legacy one the same command takes the lock that
// programs share, and the one that reads the whole table does not.
func (f *Filter) rulesAreMet(ctx context.Context) bool {
	for _, family := range f.tools.families {
		var now table
		var err error
		if f.tools.backend == Legacy {
			now, err = family.readTable(ctx, listTable)
		} else {
			now, err = family.chainsOf(ctx, listTable, input, gateChain)
		}
		if err != nil || !now.rulesAreMet(f.layout) {
			return false
		}
	}
	return true
}

// rulesAreMet reports whether the first rule of INPUT that can match a gated packet leads
// to our chain, and that chain holds our rules alone. An ACCEPT in front of them
// would let through what they drop.
func (t table) rulesAreMet(l firewall.Layout) bool {
	return t.entrance(l, gateChain) == nil &&
		(t.exactly(gateChain, gate(true)...) == nil || t.exactly(gateChain, gate(false)...) == nil)
}
