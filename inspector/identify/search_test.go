package identify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/test/memlog"
)

// Three nodes, and MACs of their machines; common is that of a network card that the BMC
// of every machine of a kind shows.
const (
	node1, mac1 = "11111111-1111-4111-8111-111111111111", "52:54:00:a5:01:01"
	node2, mac2 = "22222222-2222-4222-8222-222222222222", "52:54:00:a5:02:01"
	node3, mac3 = "33333333-3333-4333-8333-333333333333", "52:54:00:a5:03:01"
	common      = "be:3a:f2:b6:05:9f"
	bmc1, bmc2  = "198.18.4.1", "198.18.4.2"
	// One BMC's, static and of SLAAC.
	static6, slaac6 = "2001:db8::10", "2001:db8::a236:9fff:fe00:1"
)

// site is what is known of nodes: a state, and an Ironic.
type site struct {
	*memlog.Log
	nodes   []Known  // in Ironic, with the MACs of their ports
	bridged []string // nodes
	away    bool
	asked   []string // nodes
}

func newSite(t testing.TB, nodes ...Known) *site { return &site{Log: memlog.New(t), nodes: nodes} }

func (s *site) search() Search { return Search{s.Node, s.Ports, s.BMCs} }

// starts has the nodes of Ironic under introspection, known by all that Ironic has.
func (s *site) starts(t testing.TB) *site {
	t.Helper()
	for _, k := range s.nodes {
		s.do(t, introspection.Start{Node: k.Node, Event: introspection.EventAdopt, Timeout: time.Hour,
			Attributes: k.Attributes})
	}
	return s
}

// pulls has the state know the ports of Ironic.
func (s *site) pulls(t testing.TB) *site {
	t.Helper()
	if res, err := s.DoAsLeader(ironicports.PutPorts{Complete: true, Ports: s.ports()}); err != nil || res.Err() != nil {
		t.Fatal(res, err)
	}
	return s
}

func (s *site) do(t testing.TB, c fsm.Command) {
	t.Helper()
	if res, err := s.Do(t.Context(), "", c); err != nil || res.Err() != nil {
		t.Fatal(res, err)
	}
}

func (s *site) ports() (ports []ironicports.Port) {
	for _, k := range s.nodes {
		for _, mac := range k.MACs {
			ports = append(ports, ironicports.Port{ID: fmt.Sprintf("port-%d", len(ports)), MAC: mac, Node: k.Node})
		}
	}
	return ports
}

var errAway = errors.New("away")

func (s *site) answer() error {
	if s.away {
		return errAway
	}
	return nil
}

func (s *site) Node(_ context.Context, node string) (Known, bool, error) {
	s.asked = append(s.asked, node)
	if n := slices.IndexFunc(s.nodes, func(k Known) bool { return k.Node == node }); n >= 0 && !s.away {
		k := s.nodes[n]
		return Known{Attributes: introspection.Attributes{BMC: k.BMC}, Serial: k.Serial, Provision: k.Provision}, true, nil
	}
	return Known{}, false, s.answer()
}

func (s *site) Ports(context.Context) (Ports, error) { return NewPorts(s.ports()), s.answer() }

func (s *site) BMCs(context.Context) (BMCs, error) {
	b := NewBMCs(len(s.nodes))
	for _, k := range s.nodes {
		b.Add(k.Node, k.BMC, slices.Contains(s.bridged, k.Node))
	}
	return b, s.answer()
}

func at(node, serial string, macs []string, bmc ...string) Known {
	return Known{Node: node, Serial: serial, Attributes: introspection.Attributes{MACs: macs, BMC: bmc}}
}

// machine is one with the MACs and BMC addresses, split by spaces; those of cards that lead to
// its BMC begin with "usb:".
func machine(macs, bmc, serial string) (m Machine) {
	for _, mac := range strings.Fields(macs) {
		mac, inner := strings.CutPrefix(mac, "usb:")
		m.MACs = append(m.MACs, mac)
		if inner {
			m.Inner = append(m.Inner, mac)
		}
	}
	m.BMC, m.Serial = strings.Fields(bmc), serial
	return m
}

// verdict writes an answer: the node, "none", "several", "repeated" with the node.
func verdict(a Answer) string {
	return [...]string{"none", a.Node, "several", "repeated " + a.Node, "new", a.Text}[a.Verdict]
}

// The points, as in the original.
func TestPoints(t *testing.T) {
	const chassis = "198.18.4.9"
	s := newSite(t,
		at(node1, "", []string{mac1, "52:54:00:a5:01:02"}, bmc1, chassis), at(node2, "", []string{mac2}, bmc2, chassis),
		at(node3, "", nil, chassis),
	).starts(t)
	const none, stranger = "Could not find a node for attributes ", "52:54:00:ff:ff:ff"
	for _, tt := range []struct{ name, macs, bmc, want, text string }{
		{"by MAC", stranger + " " + mac1, "", node1, ""},
		{"by BMC", stranger, bmc2, node2, ""},
		{"by both", mac1, bmc1, node1, ""},
		{"a chassis with one BMC", mac2, chassis, node2, ""},
		{"two MACs are one point", mac1 + " 52:54:00:a5:01:02 " + mac2, "", "several",
			"Multiple nodes match the same number of attributes {'bmc_address': [], 'mac': ['" + mac1 +
				"', '52:54:00:a5:01:02', '" + mac2 + "']}: ['" + node1 + "', '" + node2 + "']"},
		{"MAC of one, BMC of another", mac2, bmc1, "several",
			"Multiple nodes match the same number of attributes {'bmc_address': ['" + bmc1 + "'], 'mac': ['" + mac2 + "']}: ['" +
				node1 + "', '" + node2 + "']"},
		{"no node", stranger, "198.18.0.1 198.18.0.2", "none",
			none + "{'bmc_address': ['198.18.0.1', '198.18.0.2'], 'mac': ['" + stranger + "']}"},
		{"nothing to go by", "", "", "none", none + "{'bmc_address': [], 'mac': []}"},
		{"what is no port's", noMAC + " ff:ff:ff:ff:ff:ff", "", "none",
			none + "{'bmc_address': [], 'mac': ['" + noMAC + "', 'ff:ff:ff:ff:ff:ff']}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := s.search().Started(t.Context(), s.View(), machine(tt.macs, tt.bmc, ""))
			text := a.Text
			if a.Verdict == None {
				text = a.Machine.Unknown()
			}
			if verdict(a) != tt.want || text != tt.text {
				t.Errorf("got %s, %s, want %s, %s", verdict(a), text, tt.want, tt.text)
			}
		})
	}
}

func TestTextIsBounded(t *testing.T) {
	s, macs := newSite(t), make([]string, MaxInterfaces)
	for i := range macs {
		macs[i] = fmt.Sprintf("52:54:00:00:%02x:%02x", i>>8, i&255)
	}
	a := s.search().Started(t.Context(), s.View(), machine(strings.Join(macs, " "), "", ""))
	if text := a.Machine.Unknown(); len(text) > 1000 || !strings.HasSuffix(text, ", ...]}") {
		t.Error(text)
	}
}

// The table: what is known of node 1, which waits, and what the machine is like that calls.
func TestEvidence(t *testing.T) {
	own, usb := []string{mac1}, []string{common}
	for _, tt := range []struct {
		name            string
		nodes           []Known
		macs, bmc, sn   string
		want            string
		bridged, silent bool
	}{
		{name: "nothing speaks against it", nodes: []Known{at(node1, "", own)}, macs: mac1, want: node1},
		{name: "another address of the BMC alone", nodes: []Known{at(node1, "", own, bmc1)}, macs: mac1, bmc: bmc2,
			want: node1},
		{name: "another address, and the address of another node's",
			nodes: []Known{at(node1, "", own, bmc1), at(node2, "", nil, bmc2)}, macs: mac1, bmc: bmc2, want: "none"},
		{name: "the address of another node's alone: as if both waited",
			nodes: []Known{at(node1, "", own), at(node2, "", nil, bmc2)}, macs: mac1, bmc: bmc2, want: "several"},
		{name: "that of a bridge", nodes: []Known{at(node1, "", own), at(node2, "", nil, bmc2)}, macs: mac1, bmc: bmc2,
			want: node1, bridged: true},
		{name: "another node has it, and Ironic does not say", nodes: []Known{at(node1, "", own), at(node2, "", nil, bmc2)},
			macs: mac1, bmc: bmc2, want: node1, silent: true},
		{name: "the BMC of several, its own among them", nodes: []Known{at(node1, "", own, bmc1), at(node2, "", nil, bmc1)},
			macs: mac1, bmc: bmc1, want: node1},
		{name: "a MAC is missing", nodes: []Known{at(node1, "", []string{mac1, mac3})}, macs: mac1, want: node1},
		{name: "a MAC is missing, and another address", nodes: []Known{at(node1, "", []string{mac1, mac3}, bmc1)}, macs: mac1,
			bmc: bmc2, want: "none"},
		{name: "a MAC is missing, and the address of another node's",
			nodes: []Known{at(node1, "", []string{mac1, mac3}), at(node2, "", nil, bmc2)}, macs: mac1, bmc: bmc2, want: "none"},
		{name: "a card in common", nodes: []Known{at(node1, "", usb)}, macs: mac2 + " usb:" + common, want: node1},
		{name: "a card in common, and another address", nodes: []Known{at(node1, "", usb, bmc1)},
			macs: mac2 + " usb:" + common, bmc: bmc2, want: "none"},
		{name: "a card in common, and a MAC is missing", nodes: []Known{at(node1, "", []string{mac1, common})},
			macs: mac2 + " usb:" + common, want: "none"},
		{name: "a card in common, its own BMC", nodes: []Known{at(node1, "", []string{mac1, common}, bmc1)},
			macs: mac2 + " usb:" + common, bmc: bmc1, want: node1},
		{name: "a card in common, and the address of another node's",
			nodes: []Known{at(node1, "", usb), at(node2, "", nil, bmc2)}, macs: mac2 + " usb:" + common, bmc: bmc2,
			want: "none"},
		{name: "a card in common that does not say so", nodes: []Known{at(node1, "", []string{mac1, common})},
			macs: mac2 + " " + common, want: node1},
		{name: "a card in common, and another serial number", nodes: []Known{at(node1, "sn-1", usb)},
			macs: mac2 + " usb:" + common, sn: "sn-2", want: "none"},
		{name: "another serial number alone", nodes: []Known{at(node1, "sn-1", own)}, macs: mac1, sn: "sn-2", want: node1},
		{name: "another serial number, its own BMC", nodes: []Known{at(node1, "sn-1", usb, bmc1)},
			macs: mac2 + " usb:" + common, bmc: bmc1, sn: "sn-2", want: node1},
		{name: "a BMC with a link-local address", nodes: []Known{at(node1, "", []string{mac1, common}, "fe80::1")},
			macs: mac2 + " usb:" + common, bmc: "fe80::1", want: "none"},
		{name: "a BMC with two IPv6 addresses, and a MAC is missing",
			nodes: []Known{at(node1, "", []string{mac1, mac3}, static6)}, macs: mac1, bmc: slaac6, want: node1},
		{name: "the same, and IPv4 addresses that differ",
			nodes: []Known{at(node1, "", []string{mac1, mac3}, static6, bmc1)}, macs: mac1, bmc: slaac6 + " " + bmc2,
			want: "none"},
		{name: "the same, and an IPv4 address that agrees",
			nodes: []Known{at(node1, "", []string{mac1, mac3}, static6, bmc1)}, macs: mac1, bmc: slaac6 + " " + bmc1,
			want: node1},
		{name: "the same, and the address of another node's",
			nodes: []Known{at(node1, "", []string{mac1, mac3}, static6), at(node2, "", nil, slaac6)}, macs: mac1, bmc: slaac6,
			want: "none"},
		{name: "a card in common, and an IPv6 address that agrees",
			nodes: []Known{at(node1, "", []string{mac1, common}, slaac6)}, macs: mac2 + " usb:" + common, bmc: slaac6,
			want: node1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, tt.nodes[0]).starts(t)
			s.nodes, s.away = tt.nodes, tt.silent
			if tt.bridged {
				s.bridged = []string{node1}
			}
			a := s.search().Started(t.Context(), s.View(), machine(tt.macs, tt.bmc, tt.sn))
			if verdict(a) != tt.want {
				t.Errorf("evidence: got %s, %s, want %s", verdict(a), a.Machine.Unknown(), tt.want)
			}
			if tt.want == "none" && !strings.Contains(a.Machine.Unknown(), "; it is not node "+node1+": ") {
				t.Errorf("evidence: the refusal does not say why: %s", a.Machine.Unknown())
			}
		})
	}
}

// A tie is settled by the same evidence, and only by it.
func TestTies(t *testing.T) {
	usb := []string{common}
	for _, tt := range []struct {
		name          string
		nodes         []Known
		macs, bmc, sn string
		want          string
	}{
		{"a card in common, and the machine's own", []Known{at(node1, "", usb), at(node2, "", []string{mac2})},
			mac2 + " usb:" + common, "", "", node2},
		{"the same, with a MAC that is missing",
			[]Known{at(node1, "", []string{mac1, common}), at(node2, "", []string{mac2, mac3})}, mac2 + " usb:" + common, "", "",
			node2},
		{"a card that does not say so", []Known{at(node1, "", usb), at(node2, "", []string{mac2})}, mac2 + " " + common, "",
			"", "several"},
		{"one has another serial number, and another address",
			[]Known{at(node1, "sn-1", usb, bmc1), at(node2, "", nil, bmc2)}, mac2 + " " + common, bmc2, "sn-2", node2},
		{"nothing tells them apart", []Known{at(node1, "sn-1", []string{mac1}), at(node2, "sn-2", []string{mac2})},
			mac1 + " " + mac2, "", "sn-3", "several"},
		{"neither is the machine", []Known{at(node1, "", []string{mac1, common}), at(node2, "", []string{mac3, common})},
			mac2 + " usb:" + common, "", "", "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, tt.nodes...).starts(t)
			s.pulls(t)
			m := machine(tt.macs, tt.bmc, tt.sn)
			if a := s.search().Started(t.Context(), s.View(), m); verdict(a) != tt.want {
				t.Errorf("ties: got %s, %s, want %s", verdict(a), a.Machine.Unknown(), tt.want)
			}
			found, err := s.search().InIronic(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			if a := found.Node(); verdict(a) != tt.want {
				t.Errorf("ties: in Ironic: got %s, %v, want %s", verdict(a), a.Machine.Not, tt.want)
			}
			if a := found.Started(s.View()); tt.bmc == "" && verdict(a) != tt.want { // the BMC was known at the start
				t.Errorf("ties: by its port: got %s, %v, want %s", verdict(a), a.Machine.Not, tt.want)
			}
		})
	}
}

// Blades that Ironic reaches at one address are told apart by what else is known of them: a
// blade that does not wait is never the one that does.
func TestBladesWithOneBMC(t *testing.T) {
	first := []string{mac1}
	for _, tt := range []struct {
		name     string
		nodes    []Known // the first one waits
		macs, sn string
		want     string
		unpulled bool // its ports are not known
		silent   bool
		bridged  bool
	}{
		{name: "the other blade", nodes: []Known{at(node1, "sn-1", first, bmc1), at(node2, "sn-2", []string{mac2}, bmc1)},
			macs: mac2, sn: "sn-2", want: "none"},
		{name: "the other blade, no serial numbers",
			nodes: []Known{at(node1, "", first, bmc1), at(node2, "", []string{mac2}, bmc1)}, macs: mac2, want: "none"},
		{name: "the other blade, and Ironic does not say",
			nodes: []Known{at(node1, "", first, bmc1), at(node2, "", []string{mac2}, bmc1)}, macs: mac2, want: "none",
			silent: true},
		{name: "the other blade, which has no port",
			nodes: []Known{at(node1, "", first, bmc1), at(node2, "", nil, bmc1)}, macs: mac2, want: "none"},
		{name: "the other blade, where its ports were not listed yet", unpulled: true,
			nodes: []Known{at(node1, "", first, bmc1), at(node2, "", []string{mac2}, bmc1)}, macs: mac2, want: "none"},
		{name: "the other blade, and the one that waits has no port",
			nodes: []Known{at(node1, "", nil, bmc1), at(node2, "", []string{mac2}, bmc1)}, macs: mac2, want: "none"},
		{name: "neither blade has a port: as if both waited",
			nodes: []Known{at(node1, "", nil, bmc1), at(node2, "", nil, bmc1)}, macs: mac2, want: "several"},
		{name: "behind a bridge", bridged: true,
			nodes: []Known{at(node1, "", first, bmc1), at(node2, "", nil, bmc1)}, macs: mac2, want: "none"},
		{name: "the other blade, a card in common",
			nodes: []Known{at(node1, "", []string{mac1, common}, bmc1), at(node2, "", []string{mac2, common}, bmc1)},
			macs:  mac2 + " usb:" + common, want: "none"},
		{name: "the blade itself", nodes: []Known{at(node1, "", first, bmc1), at(node2, "", []string{mac2}, bmc1)},
			macs: mac1, want: node1},
		{name: "the blade itself, with one of its cards replaced",
			nodes: []Known{at(node1, "", []string{mac1, mac3}, bmc1), at(node2, "", []string{mac2}, bmc1)}, macs: mac1,
			want: node1},
		{name: "the blade itself, with a card of the other", sn: "sn-3",
			nodes: []Known{at(node1, "sn-1", []string{mac1, mac3}, bmc1), at(node2, "", []string{mac2, common}, bmc1)},
			macs:  mac1 + " " + mac2 + " " + common, want: node1},
		{name: "a BMC of one node, with another card", nodes: []Known{at(node1, "", first, bmc1), at(node2, "", nil, bmc2)},
			macs: mac3, want: node1},
		{name: "a BMC of one node, with another card, and Ironic does not say", silent: true,
			nodes: []Known{at(node1, "", first, bmc1)}, macs: mac3, want: node1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, tt.nodes[0]).starts(t)
			s.nodes = tt.nodes
			if !tt.unpulled {
				s.pulls(t)
			}
			s.away = tt.silent
			if tt.bridged {
				s.bridged = []string{node1, node2}
			}
			a := s.search().Started(t.Context(), s.View(), machine(tt.macs, bmc1, tt.sn))
			if verdict(a) != tt.want {
				t.Errorf("blades: got %s, %s, want %s", verdict(a), a.Machine.Unknown(), tt.want)
			}
		})
	}
}

// A node that Ironic has no more is none of those that a machine may be; one of which Ironic
// does not say is.
func TestTiesWithDeletedNodes(t *testing.T) {
	own := []string{mac1}
	for _, tt := range []struct {
		name   string
		nodes  []string // that wait, known by the same MAC
		gone   []string // from Ironic
		silent bool
		want   string
	}{
		{name: "the former node was deleted", nodes: []string{node1, node2}, gone: []string{node1}, want: node2},
		{name: "two former ones", nodes: []string{node1, node2, node3}, gone: []string{node1, node3}, want: node2},
		{name: "Ironic has both", nodes: []string{node1, node2}, want: "several"},
		{name: "Ironic does not say", nodes: []string{node1, node2}, gone: []string{node1}, silent: true, want: "several"},
		{name: "all were deleted", nodes: []string{node1, node2}, gone: []string{node1, node2}, want: "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			for _, node := range tt.nodes {
				s.nodes = append(s.nodes, at(node, "", own))
			}
			s.starts(t)
			s.nodes = slices.DeleteFunc(s.nodes, func(k Known) bool { return slices.Contains(tt.gone, k.Node) })
			s.away = tt.silent
			if a := s.search().Started(t.Context(), s.View(), machine(mac1, "", "")); verdict(a) != tt.want {
				t.Errorf("deleted: got %s, %s, want %s", verdict(a), a.Text, tt.want)
			}
		})
	}
	s := newSite(t)
	for i := range maxAsked + 1 {
		s.nodes = append(s.nodes, at(fmt.Sprintf("%08d-1111-4111-8111-111111111111", i), "", own))
	}
	if a := s.starts(t).search().Started(t.Context(), s.View(), machine(mac1, "", "")); verdict(a) != "several" ||
		len(s.asked) != 0 {
		t.Errorf("deleted: of many nodes: %s, Ironic was asked for %d", verdict(a), len(s.asked))
	}
	s = newSite(t, at(node1, "", own), at(node2, "", own)).starts(t) // its BMC is another node's, as if that waited
	s.nodes = []Known{at(node2, "", own), at(node3, "", nil, bmc2)}
	if a := s.search().Started(t.Context(), s.View(), machine(mac1, bmc2, "")); verdict(a) != "several" {
		t.Errorf("deleted: the one that is left is weighed: %s", verdict(a))
	}
}

// A document that repeats the delivery of an ended introspection is answered for that
// node, unless the evidence says that it is another's.
func TestRepeats(t *testing.T) {
	for _, tt := range []struct {
		name          string
		nodes         []Known // in Ironic, when it is repeated
		pulled        bool
		macs, bmc, sn string
		want          string
		silent        bool
	}{
		{name: "of the node", nodes: []Known{at(node1, "", []string{mac1}, bmc1)}, macs: mac1, bmc: bmc1,
			want: "repeated " + node1},
		{name: "of a node that is gone", nodes: []Known{at(node2, "", []string{mac2})}, macs: mac1, want: "none"},
		{name: "Ironic does not say", macs: mac1, want: "repeated " + node1, silent: true},
		{name: "the port is another node's", nodes: []Known{at(node1, "", nil), at(node2, "", []string{mac1})}, pulled: true,
			macs: mac1, want: "none"},
		{name: "the port in common is another node's",
			nodes: []Known{at(node1, "", []string{mac1}), at(node2, "", []string{common})}, pulled: true,
			macs: mac1 + " usb:" + common, want: "repeated " + node1},
		{name: "another serial number alone", nodes: []Known{at(node1, "sn-1", nil)}, macs: mac1, sn: "sn-2",
			want: "repeated " + node1},
		{name: "another serial number and address", nodes: []Known{at(node1, "sn-1", nil, bmc1)}, macs: mac1, bmc: bmc2,
			sn: "sn-2", want: "none"},
		{name: "another address, that of another node's", nodes: []Known{at(node1, "", nil, bmc1), at(node2, "", nil, bmc2)},
			macs: mac1, bmc: bmc2, want: "none"},
		{name: "another address alone", nodes: []Known{at(node1, "", nil, bmc1)}, macs: mac1, bmc: bmc2,
			want: "repeated " + node1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			m := machine(tt.macs, tt.bmc, tt.sn)
			m.Document = delivered(t, s, node1, introspection.Attributes{MACs: m.MACs})
			s.nodes, s.away = tt.nodes, tt.silent
			if tt.pulled {
				s.pulls(t)
			}
			if a := s.search().Started(t.Context(), s.View(), m); verdict(a) != tt.want {
				t.Errorf("repeats: got %s, %s, want %s", verdict(a), a.Machine.Unknown(), tt.want)
			}
		})
	}
}

// delivered has a node's introspection end with a document.
func delivered(t testing.TB, s *site, node string, a introspection.Attributes) blobs.Hash {
	t.Helper()
	packer, err := blobs.NewPacker(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := packer.Pack([]byte(`{"of":"` + node + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	s.do(t, introspection.Start{Node: node, Event: introspection.EventAdopt, Timeout: time.Hour, Attributes: a})
	res, err := s.Do(t.Context(), "worker", introspection.TakeCallback{Node: node, Document: packed})
	var taken introspection.Taken
	if err == nil {
		err = res.Decode(&taken)
	}
	if err != nil || taken.Claimed == nil {
		t.Fatal(res, err)
	}
	s.do(t, introspection.Advance{Claim: taken.Claimed.Claim.Hold(), Event: introspection.EventError, Error: "over",
		Answer: introspection.Answer{Status: 400, Message: "over"}, Consume: true})
	return packed.Hash
}
