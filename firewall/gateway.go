package firewall

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
)

// gatewayEvery is how often a host looks anew who is behind its InfiniBand
// gateway; it looks at every change of the lists, too.
const gatewayEvery = 5 * time.Second

// Neighbours are the machines behind an InfiniBand gateway of this host, as its
// interfaces have learned them.
type Neighbours interface {
	// Neighbours returns by which MAC the InfiniBand interface of each GUID is
	// seen here. What cannot be read is left out.
	Neighbours() map[string]string
}

// gateway translates the MACs of the lists into those that this host sees: an
// InfiniBand port has one in Ironic and another, given by the gateway, in its
// frames. A port whose GUID no interface knows keeps its own.
//
// Behind is for everybody; the rest belongs to the goroutine of Lists.
type gateway struct {
	source Neighbours
	due    bool                // the neighbours are to be read with the next difference
	neighs map[string]string   // GUID → MAC, as read last
	guids  map[string][]string // GUID → MACs of ports that had it
	dirty  map[string]bool     // addresses whose place on the lists may have changed since they were programmed

	mu sync.Mutex
	as map[string][]string // MAC of ports → what they are seen by, if that is not it alone
	by map[string][]string // the other way round
}

func newGateway(source Neighbours) *gateway {
	return &gateway{source: source, dirty: make(map[string]bool)}
}

// behind returns the MACs in Ironic of the ports that this host sees by an
// address; none if that is a machine like any other.
func (g *gateway) behind(address string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.by[address])
}

// rebuild begins anew with a state: the rules will be replaced.
func (g *gateway) rebuild(v fsm.View) {
	g.due, g.neighs, g.guids = false, g.source.Neighbours(), make(map[string][]string)
	g.mu.Lock()
	g.as, g.by = make(map[string][]string), make(map[string][]string)
	g.mu.Unlock()
	for p := range v.Ports() {
		if p.GUID != "" {
			g.learn(v, p.MAC)
		}
	}
}

// settled says that the lists hold what they should.
func (g *gateway) settled() { clear(g.dirty) }

// follow takes in the MACs that changed in the state, and what the gateway has
// learned since. It returns the addresses to look at, in order.
func (g *gateway) follow(v fsm.View, macs ...string) []string {
	if g.due || len(macs) > 0 {
		g.due = false
		now := g.source.Neighbours()
		for guid, known := range g.guids {
			if now[guid] != g.neighs[guid] {
				macs = append(macs, known...)
			}
		}
		g.neighs = now
	}
	for _, mac := range macs {
		g.learn(v, mac)
	}
	return slices.Sorted(maps.Keys(g.dirty))
}

// learn looks up by what the ports of a MAC are seen.
func (g *gateway) learn(v fsm.View, mac string) {
	var seen []string
	ports := v.PortsByMAC(mac)
	own := len(ports) == 0 // a node may be introspected before its ports are listed
	for _, p := range ports {
		if p.GUID != "" && !slices.Contains(g.guids[p.GUID], mac) {
			g.guids[p.GUID] = append(g.guids[p.GUID], mac)
		}
		if address, ok := g.neighs[p.GUID]; ok && p.GUID != "" {
			seen = append(seen, address)
		} else {
			own = true
		}
	}
	if own && len(seen) > 0 {
		seen = append(seen, mac)
	}
	slices.Sort(seen)
	g.see(mac, slices.Compact(seen))
}

// see puts what a MAC is seen by in the place of what it was.
func (g *gateway) see(mac string, seen []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.as[mac]
	g.dirty[mac] = true
	for _, address := range slices.Concat(old, seen) {
		g.dirty[address] = true
	}
	for _, address := range old {
		if g.by[address] = without(g.by[address], mac); len(g.by[address]) == 0 {
			delete(g.by, address)
		}
	}
	delete(g.as, mac)
	if len(seen) == 0 {
		return
	}
	g.as[mac] = seen
	for _, address := range seen {
		g.by[address] = append(g.by[address], mac)
	}
}

func without(list []string, mac string) []string {
	return slices.DeleteFunc(list, func(m string) bool { return m == mac })
}

// on reports whether an address belongs on this host's form of a list.
func (g *gateway) on(list func(mac string) bool, address string) bool {
	if _, elsewhere := g.as[address]; !elsewhere && list(address) {
		return true
	}
	return slices.ContainsFunc(g.by[address], list)
}

// translated is a sorted list in this host's form.
func (g *gateway) translated(macs []string) []string {
	if len(g.as) == 0 {
		return macs
	}
	out := make([]string, 0, len(macs))
	for _, mac := range macs {
		if seen, elsewhere := g.as[mac]; elsewhere {
			out = append(out, seen...)
		} else {
			out = append(out, mac)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// difference is the change that makes the lists those of v, after these MACs
// changed in it.
func (g *gateway) difference(v fsm.View, leads bool, ports, allowed []string) (c Change) {
	for _, address := range g.follow(v, slices.Concat(ports, allowed)...) {
		if address == TestMAC || g.on(v.Denied, address) {
			c.Deny = append(c.Deny, address)
		} else {
			c.Undeny = append(c.Undeny, address)
		}
		switch {
		case !leads:
		case g.on(v.Allowed, address):
			c.Allow = append(c.Allow, address)
		default:
			c.Unallow = append(c.Unallow, address)
		}
	}
	return c
}
