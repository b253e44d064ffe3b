package fsm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/ironicports"
)

// macN returns a MAC by its number.
func macN(n int) string { return fmt.Sprintf("52:54:00:%02x:%02x:%02x", n>>16&255, n>>8&255, n&255) }

// port returns a port of a MAC's own node.
func port(id string, mac int) ironicports.Port {
	return ironicports.Port{ID: id, MAC: macN(mac), Node: nodeN(mac)}
}

func (r *rig) denies(want ...int) {
	r.t.Helper()
	macs := []string{}
	for _, n := range want {
		macs = append(macs, macN(n))
	}
	got := slices.AppendSeq([]string{}, r.view().DeniedMACs())
	if !slices.Equal(got, macs) || r.view().DeniedCount() != len(macs) {
		r.t.Errorf("denied are %d: %v, want %v", r.view().DeniedCount(), got, macs)
	}
}

func TestPortsComeMoveAndGo(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	r.asLeader(ironicports.PutPorts{Ports: []ironicports.Port{port("b", 2), port("a", 1), port("c", 2)}})
	r.denies(1, 2)
	if got := slices.Collect(r.view().Ports()); !slices.Equal(got,
		[]ironicports.Port{port("a", 1), port("b", 2), port("c", 2)}) {
		t.Errorf("ports %v", got)
	}
	if got := r.view().PortsByMAC(macN(2)); !slices.Equal(got, []ironicports.Port{port("b", 2), port("c", 2)}) {
		t.Errorf("ports of %s: %v", macN(2), got)
	}
	// a moves; c keeps b's MAC
	r.asLeader(ironicports.PutPorts{Ports: []ironicports.Port{port("a", 3)}, Remove: []string{"b", "never"}})
	r.denies(2, 3)
	r.asLeader(ironicports.PutPorts{Ports: []ironicports.Port{port("d", 2)}, Remove: []string{"c"}}) // c was replaced
	r.denies(2, 3)
	moved := port("d", 2)
	moved.Node = nodeA
	r.asLeader(ironicports.PutPorts{Ports: []ironicports.Port{moved}})
	if got, ok := r.view().Port("d"); !ok || got != moved || r.view().PortCount() != 2 {
		t.Errorf("port %+v, %v of %d", got, ok, r.view().PortCount())
	}
	r.asLeader(ironicports.PutPorts{Remove: []string{"a", "d"}})
	r.denies()
	for _, mac := range []string{macN(2), "52:54", ""} {
		if r.view().Denied(mac) || len(r.view().PortsByMAC(mac)) > 0 {
			t.Errorf("%q is denied", mac)
		}
	}
}

func TestPortsAgainChangeNothing(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	put := ironicports.PutPorts{Ports: []ironicports.Port{port("a", 1), port("b", 2)}, Remove: []string{"c"}}
	r.asLeader(put)
	before := *r.state.now
	r.asLeader(put)
	before.shared.Position = r.state.now.shared.Position
	if (View{&before}).Hash() != r.view().Hash() {
		t.Error("the same again changed the state")
	}
	if macs, ok := r.view().PortsChangedSince(r.index - 1); !ok || len(macs) != 0 {
		t.Errorf("the same again is told as a change: %v, %v", macs, ok)
	}
}

// Only a whole pull is one; a failed or partial one changes nothing about it.
func TestPullIsTheNewestCompleteOne(t *testing.T) {
	r := newRig(t)
	token, _ := r.leads("a")
	r.asLeader(ironicports.PutPorts{Ports: []ironicports.Port{port("a", 1)}})
	if p, ok := r.view().Pull(); ok {
		t.Errorf("a partial pull counts: %+v", p)
	}
	r.pass(time.Second)
	r.asLeader(ironicports.PutPorts{Complete: true})
	want := ironicports.Pull{Token: token, At: r.now, Wall: r.wall, Ports: 1}
	r.pass(time.Second)
	r.asLeader(ironicports.PutPorts{Ports: []ironicports.Port{port("b", 2)}})
	if p, ok := r.view().Pull(); !ok || p != want {
		t.Errorf("the pull is %+v, want %+v", p, want)
	}
	r.asLeader(ironicports.PutPorts{Complete: true, Remove: []string{"a", "b"}})
	if p, ok := r.view().Pull(); !ok || p != (ironicports.Pull{Token: token, At: r.now, Wall: r.wall}) {
		t.Errorf("Ironic has no ports: %+v, %v", p, ok)
	}
	if err := r.state.Refound(Refound{Index: 100}); err != nil {
		t.Fatal(err)
	}
	if p, ok := r.view().Pull(); ok {
		t.Errorf("ports of an earlier history are a pull: %+v", p)
	}
}

func TestPortsAreTheLeadersAlone(t *testing.T) {
	r := newRig(t)
	put := ironicports.PutPorts{Ports: []ironicports.Port{port("a", 1)}, Complete: true}
	r.refused(Refused, Header{}, put)
	old, _ := r.leads("a")
	r.leads("b")
	r.refused(Refused, Header{}, put)
	r.refused(StaleToken, Header{Token: old}, put)
	r.denies()
}

// portsN returns so many ports from a number on.
func portsN(from, n int) []ironicports.Port {
	out := make([]ironicports.Port, 0, n)
	for i := range n {
		out = append(out, port(fmt.Sprintf("port-%06d", from+i), from+i))
	}
	return out
}

func TestPortsAreBounded(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	for i := range ironicports.MaxPorts - 1 { // as a snapshot has them: entries would take seconds
		load(t, r.state.now, 'i', ironicports.Port{ID: fmt.Sprintf("filler-%06d", i), MAC: macN(1<<23 + i)})
	}
	h := Header{Token: r.view().Leadership().Token}
	r.apply(t, h, ironicports.PutPorts{Ports: portsN(1, 1)})
	before := r.view().data.portTables
	r.index++
	res := r.state.Apply(Entry{Index: r.index, Term: 2,
		Data: encoded(t, h, ironicports.PutPorts{Ports: portsN(2, 1), Complete: true})})
	if res.Code != TableFull || r.view().data.portTables != before {
		t.Errorf("one port too many: %v, %d ports", res.Code, r.view().PortCount())
	}
	if macs, ok := r.view().PortsChangedSince(r.index - 1); !ok || len(macs) != 0 {
		t.Errorf("what was refused is told as a change: %v, %v", macs, ok)
	}
	r.apply(t, h, ironicports.PutPorts{Ports: portsN(2, 1), Remove: []string{portsN(1, 1)[0].ID}})
	if r.view().PortCount() != ironicports.MaxPorts || r.view().Denied(macN(1)) || !r.view().Denied(macN(2)) {
		t.Errorf("%d ports after a swap", r.view().PortCount())
	}
}
