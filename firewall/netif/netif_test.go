package netif

import (
	"errors"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// host is the interfaces of a host, by index.
type host map[int]netlink.Link

func (h host) add(index int, name string, master int, kind string) {
	h[index] = &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: index, Name: name, MasterIndex: master,
		EncapType: ethernet},
		LinkType: kind}
}

func (h host) links() Links {
	return Links{
		ByName: func(name string) (netlink.Link, error) {
			for _, l := range h {
				if l.Attrs().Name == name {
					return l, nil
				}
			}
			return nil, netlink.LinkNotFoundError{}
		},
		ByIndex: func(index int) (netlink.Link, error) {
			if l, ok := h[index]; ok {
				return l, nil
			}
			return nil, netlink.LinkNotFoundError{}
		},
	}
}

func TestPlace(t *testing.T) {
	h := host{}
	h.add(1, "eth0", 0, "device")
	h.add(2, "eth1", 10, "device")
	h.add(3, "eth2", 11, "device")
	h.add(4, "eth3", 12, "device")
	h.add(10, "br0", 0, "bridge")
	h.add(11, "bond0", 10, "bond")
	h.add(12, "tenant", 0, "vrf")
	h.add(13, "eth4", 99, "device")
	h.add(14, "ovs-system", 0, "openvswitch")
	h.add(15, "eth6", 14, "device")
	h.add(16, "ib0", 0, "ipoib")
	h[16].Attrs().EncapType = "infiniband"
	h.add(17, "ib1", 18, "ipoib")
	h[17].Attrs().EncapType = "infiniband"
	h.add(18, "bond1", 0, "bond")
	h[18].Attrs().EncapType = "infiniband"
	for name, c := range map[string]struct {
		iface   string
		known   int
		want    Place
		problem string // "": none
	}{
		"by itself": {"eth0", 0, Place{1, "eth0", "", ethernet}, ""},
		"port of a bridge": {"eth1", 2, Place{2, "br0", "bridge", ethernet},
			"eth1 is a port of br0 (bridge); write firewall.interface: br0"},
		"bond under a bridge": {"eth2", 0, Place{3, "br0", "bridge", ethernet}, "eth2 is a port of br0 (bridge)"},
		"the bridge":          {"br0", 0, Place{10, "br0", "", ethernet}, ""},
		"in a VRF":            {"eth3", 0, Place{4, "tenant", "vrf", ethernet}, "eth3 is in the VRF tenant"},
		"port of Open vSwitch": {"eth6", 0, Place{15, "ovs-system", "openvswitch", ethernet},
			"the internal port of its Open vSwitch bridge"},
		"Open vSwitch itself": {"ovs-system", 0, Place{14, "ovs-system", "", ethernet},
			"the internal port of its Open vSwitch bridge"},
		"renamed": {"pxe", 1, Place{1, "eth0", "", ethernet},
			"pxe was renamed to eth0; write firewall.interface: eth0"},
		"renamed into a bridge": {"pxe", 2, Place{2, "br0", "bridge", ethernet}, "pxe is a port of br0"},
		"gone":                  {"pxe", 77, Place{0, "pxe", "", ""}, "no interface pxe"},
		"never there":           {"pxe", 0, Place{0, "pxe", "", ""}, "no interface pxe"},
		"IPoIB":                 {"ib0", 0, Place{16, "ib0", "", "infiniband"}, "ib0 is no Ethernet interface (infiniband)"},
		"bond of IPoIB":         {"bond1", 0, Place{18, "bond1", "", "infiniband"}, "bond1 is no Ethernet interface"},
		"port of a bond, IPoIB": {"ib1", 0, Place{17, "bond1", "bond", "infiniband"}, "ib1 is a port of bond1"},
		"its name is another's": {"eth0", 2, Place{1, "eth0", "", ethernet}, ""},
	} {
		got, err := h.links().Place(c.iface, c.known)
		if err != nil || got != c.want {
			t.Errorf("place-of-packets: %s: %+v, %v, want %+v", name, got, err, c.want)
			continue
		}
		problem := got.Problem(c.iface)
		if (problem == nil) != (c.problem == "") || problem != nil && !strings.Contains(problem.Error(), c.problem) {
			t.Errorf("place-of-packets: %s: %v, want %q", name, problem, c.problem)
		}
	}
	if p, err := h.links().Place("eth4", 0); err == nil {
		t.Errorf("the master cannot be looked at: %+v", p)
	}
	for i := range maxMasters + 2 {
		h.add(20+i, "stack", 21+i, "bond")
	}
	h[20].Attrs().Name = "eth5"
	if p, err := h.links().Place("eth5", 0); err == nil {
		t.Errorf("masters without end: %+v", p)
	}
	failed := errors.New("netlink: no buffer space")
	busy := Links{ByName: func(string) (netlink.Link, error) { return nil, failed }}
	if p, err := busy.Place("eth0", 1); !errors.Is(err, failed) {
		t.Errorf("a kernel that does not answer: %+v, %v", p, err)
	}
}
