package fsm

import (
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
)

func mac(t *rapid.T) string { return macN(rapid.IntRange(1, 4).Draw(t, "mac")) }

func attributes(t *rapid.T) introspection.Attributes {
	var a introspection.Attributes
	for range rapid.IntRange(0, 2).Draw(t, "macs") {
		if mac := mac(t); !slices.Contains(a.MACs, mac) {
			a.MACs = append(a.MACs, mac)
		}
	}
	return a
}

// ofGate draws a command of the doors or the ports.
func (m *machine) ofGate(t *rapid.T) Command {
	wait := rapid.SampledFrom([]time.Duration{0, time.Second, 4 * time.Second}).Draw(t, "wait")
	proven := rapid.SampledFrom([]fencing.Token{0, 0, m.model.gated.pass.openBy, m.model.gated.address.openBy, 1}).Draw(t,
		"proven")
	switch rapid.IntRange(0, 8).Draw(t, "act") {
	case 0, 1:
		return doors.PassOpen{Wait: wait, Proven: proven}
	case 2:
		return doors.AddressTaken{Address: rapid.SampledFrom([]string{"192.0.2.1", "2001:db8::1"}).Draw(t, "address"),
			Wait: wait, Proven: proven}
	case 3:
		if rapid.Bool().Draw(t, "pass") {
			return doors.PassClosed{}
		}
		return doors.AddressReleased{}
	case 4, 5:
		return inspected(t)
	}
	c := ironicports.PutPorts{Complete: rapid.Bool().Draw(t, "complete")}
	for _, id := range []string{"p1", "p2", "p3"} {
		switch rapid.IntRange(0, 2).Draw(t, id) {
		case 0:
			c.Ports = append(c.Ports, ironicports.Port{ID: id, MAC: mac(t), Node: node(t)})
		case 1:
			c.Remove = append(c.Remove, id)
		}
	}
	if len(c.Ports)+len(c.Remove) == 0 {
		c.Complete = true
	}
	return c
}

// inspected draws what Ironic inspects and what no more.
func inspected(t *rapid.T) introspection.PutInspected {
	var c introspection.PutInspected
	for _, id := range []string{nodeA, nodeB} {
		if rapid.Bool().Draw(t, "remove") {
			c.Remove = append(c.Remove, id)
			continue
		}
		macs := attributes(t).MACs
		slices.Sort(macs)
		c.Nodes = append(c.Nodes, introspection.Inspected{Node: id, MACs: macs})
	}
	return c
}

// gate is what the leader's duties do, sometimes one of a leader that is none.
func (m *machine) gate(t *rapid.T) {
	if m.model.lead == 0 {
		m.commit(t, Header{}, Lead{Peer: peer(t), Boot: "b"})
	}
	token := m.model.lead
	if rapid.IntRange(0, 9).Draw(t, "zombie") == 0 {
		token = m.anyToken(t, []fencing.Token{max(token, 2) - 1})
	}
	if rapid.Bool().Draw(t, "relay") {
		m.commit(t, Header{Token: token}, m.ofRelay(t))
		return
	}
	m.commit(t, Header{Token: token}, m.ofGate(t))
}

// checkFeeds asks state and twin what changed since earlier views: nothing that
// changed may be left out, and the twin may say that it cannot tell. Nor may an event.
func (m *machine) checkFeeds(t *rapid.T, what string) {
	n := len(m.past)
	if err := stepsTold(m.past[n-1], m.state.View()); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for _, past := range []View{m.past[0], m.past[n/2], m.past[n-1]} {
		for i, v := range []View{m.state.View(), m.twin.View()} {
			macs, ok := v.PortsChangedSince(past.Index())
			complete(t, what, macs, ok, i == 0, deniedIn(past), deniedIn(v))
			macs, ok = v.AllowedChangedSince(past.Index())
			complete(t, what, macs, ok, i == 0, allowedIn(past), allowedIn(v))
		}
	}
}

func deniedIn(v View) map[string]bool {
	out := map[string]bool{}
	for mac := range v.DeniedMACs() {
		out[mac] = v.Denied(mac)
	}
	return out
}

func allowedIn(v View) map[string]bool {
	out := map[string]bool{}
	for mac := range v.AllowedMACs() {
		out[mac] = v.Allowed(mac)
	}
	return out
}

// complete fails unless the macs that are told cover the difference.
func complete(t *rapid.T, what string, macs []string, ok, must bool, before, after map[string]bool) {
	if !ok {
		if must {
			t.Fatalf("%s: the feed cannot tell", what)
		}
		return
	}
	if !slices.IsSorted(macs) || len(slices.Compact(slices.Clone(macs))) < len(macs) {
		t.Fatalf("%s: %v is not in order", what, macs)
	}
	union := maps.Clone(before)
	maps.Copy(union, after)
	for mac := range union {
		if before[mac] != after[mac] && !slices.Contains(macs, mac) {
			t.Fatalf("%s: the change of %s is left out of %v", what, mac, macs)
		}
	}
}
