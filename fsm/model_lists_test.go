package fsm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
)

// modelGate is what decides who may boot: doors and lists.
type modelGate struct {
	since   Time   // of the leadership
	led     uint64 // its term
	term    uint64 // of the entry at work
	peer    string
	pass    modelDoor
	address modelDoor
	ports   map[string]ironicports.Port
	came    map[string]fencing.Token // by port: the entry that brought it; zero of an older log
	ironic  map[string][]string      // MACs by node that Ironic inspects
	pull    ironicports.Pull
	former  map[string]*modelFormer
}

type modelDoor struct {
	openBy  fencing.Token // zero: shut
	peer    string
	wait    Time
	address string
	shutBy  map[fencing.Token]bool // all there were
	unknown bool
	least   Time   // of wait, while unknown
	term    uint64 // in which it was recorded last, zero if that is not recorded
	index   uint64 // likewise
	since   Time   // of unknown: when the last former member was heard
}

func newModelGate() modelGate {
	return modelGate{
		term:    1,
		pass:    modelDoor{shutBy: map[fencing.Token]bool{}, least: Time(doors.UnknownPassWait)},
		address: modelDoor{shutBy: map[fencing.Token]bool{}, least: Time(doors.UnknownAddressWait)},
		ports:   map[string]ironicports.Port{}, came: map[string]fencing.Token{}, ironic: map[string][]string{},
	}
}

// gate executes what only the leader may.
func (m *model) gate(c Command) Code {
	if m.header.Token == 0 {
		return Refused
	}
	g := &m.gated
	switch c := c.(type) {
	case doors.PassOpen:
		return m.openDoor(&g.pass, Time(c.Wait), "", c.Proven)
	case doors.AddressTaken:
		return m.openDoor(&g.address, Time(c.Wait), c.Address, c.Proven)
	case doors.PassClosed:
		m.shutDoor(&g.pass)
	case doors.AddressReleased:
		m.shutDoor(&g.address)
	case introspection.PutInspected:
		for _, i := range c.Nodes {
			g.ironic[i.Node] = i.MACs
		}
		for _, node := range c.Remove {
			delete(g.ironic, node)
		}
	case ironicports.PutPorts:
		for _, p := range c.Ports {
			if g.ports[p.ID] == p {
				continue
			}
			if g.ports[p.ID], g.came[p.ID] = p, 0; m.version() > 2 {
				g.came[p.ID] = m.token()
			}
		}
		for _, id := range c.Remove {
			delete(g.ports, id)
		}
		if c.Complete {
			g.pull = ironicports.Pull{Token: m.lead, At: m.now, Wall: m.wall, Ports: len(g.ports)}
		}
	}
	return OK
}

func (m *model) openDoor(d *modelDoor, wait Time, address string, proven fencing.Token) Code {
	own := d.openBy == m.lead
	aged := m.version() > 1 && !d.unknown && proven == d.openBy && d.term > 0 && m.gated.led > d.term
	switch {
	case d.shutBy[m.lead], m.awaits():
		return Refused
	case d.unknown && m.now < max(m.gated.since, d.since)+max(wait, d.wait):
		return Refused
	case d.openBy != 0 && !own && !aged && m.now < m.gated.since+max(wait, d.wait):
		return Refused
	case own:
		wait = max(wait, d.wait)
	}
	d.openBy, d.peer, d.wait, d.address = m.lead, m.gated.peer, wait, address
	d.unknown, d.since = false, 0
	if d.term, d.index = 0, 0; m.version() > 1 {
		d.term, d.index = m.gated.term, m.index
	}
	return OK
}

func (m *model) shutDoor(d *modelDoor) {
	if d.openBy == m.lead {
		d.openBy, d.peer, d.wait, d.address, d.term, d.index = 0, "", 0, "", 0, 0
	}
	d.shutBy[m.lead] = true
}

func (d modelDoor) text() string {
	last := fencing.Token(0)
	for token := range d.shutBy {
		last = max(last, token)
	}
	return fmt.Sprintf(
		"door open by %v of %q, waits %v, at %q, shut by %v, unknown %v since %v, recorded at %d in term %d\n", d.openBy,
		d.peer, d.wait, d.address, last, d.unknown, d.since, d.index, d.term)
}

// denied and allowed are the two lists, with an owner.
func (m *model) denied() map[string]string {
	out := map[string]string{}
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(m.gated.ports))) {
		out[m.gated.ports[id].MAC] = id
	}
	return out
}

func (m *model) allowed() map[string]string {
	out := map[string]string{}
	for _, node := range slices.Backward(slices.Sorted(maps.Keys(m.gated.ironic))) {
		for _, mac := range m.gated.ironic[node] {
			out[mac] = node
		}
	}
	for _, node := range slices.Backward(slices.Sorted(maps.Keys(m.nodes))) {
		n := m.nodes[node]
		if n.State == introspection.NodeFinished || n.State == introspection.NodeError ||
			n.State == introspection.NodeReapplying {
			continue
		}
		for _, mac := range n.Attributes.MACs {
			if !m.movedSince(mac, n) {
				out[mac] = node
			}
		}
	}
	for _, p := range m.gated.ports { // order-free: of several nodes none has it by a port
		if _, named := out[p.MAC]; !named && m.bootsByPort(p) {
			out[p.MAC] = p.Node
		}
	}
	return out
}

// movedSince reports whether another node got all ports with a MAC since the start of a node.
func (m *model) movedSince(mac string, n *introspection.Record) (moved bool) {
	others := map[string]bool{}
	for id, p := range m.gated.ports {
		if p.MAC == mac {
			others[p.Node] = true
			moved = moved || m.gated.came[id] > n.Begun
		}
	}
	return moved && len(others) == 1 && !others[n.Node]
}

// bootsByPort reports whether a port lets its MAC in.
func (m *model) bootsByPort(port ironicports.Port) bool {
	for _, p := range m.gated.ports {
		if p.MAC == port.MAC && p.Node != port.Node {
			return false
		}
	}
	for _, n := range m.nodes {
		if slices.Contains(n.Attributes.MACs, port.MAC) {
			return false
		}
	}
	n, recorded := m.nodes[port.Node]
	return recorded && m.gated.came[port.ID] > n.Begun && n.State.Active() && n.State != introspection.NodeReapplying
}

// introspecting reports whether any node is between its start and its end, or
// inspected by Ironic.
func (m *model) introspecting() bool {
	if len(m.gated.ironic) > 0 {
		return true
	}
	for _, n := range m.nodes {
		if n.FinishedMillis == 0 {
			return true
		}
	}
	return false
}

func (m *model) gateText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "leads since %v\n%s%s", m.gated.since, m.gated.pass.text(), m.gated.address.text())
	for _, id := range slices.Sorted(maps.Keys(m.gated.ports)) {
		fmt.Fprintf(&b, "port %+v\n", m.gated.ports[id])
	}
	fmt.Fprintf(&b, "pull %+v\n", m.gated.pull)
	denied, allowed := m.denied(), m.allowed()
	for _, mac := range slices.Sorted(maps.Keys(denied)) {
		fmt.Fprintf(&b, "denied %s by %s\n", mac, denied[mac])
	}
	for _, mac := range slices.Sorted(maps.Keys(allowed)) {
		fmt.Fprintf(&b, "allowed %s as %s\n", mac, allowed[mac])
	}
	fmt.Fprintf(&b, "denied %d, allowed %d, introspecting %v\n", len(denied), len(allowed), m.introspecting())
	b.WriteString(m.formerText())
	return b.String()
}
