package hostaddr

import (
	"net"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

// TestInwardBridges has a host with bridges of containers and virtual machines, and with those that
// lead out of it: over a NIC, a bond and a VLAN, and over the NIC of a container, by its default route.
func TestInwardBridges(t *testing.T) {
	var links []netlink.Link
	add := func(name string, link func(netlink.LinkAttrs) netlink.Link, master int) (index int) {
		index = len(links) + 1
		links = append(links, link(netlink.LinkAttrs{Name: name, Index: index, MasterIndex: master}))
		return index
	}
	bridge := func(a netlink.LinkAttrs) netlink.Link { return &netlink.Bridge{LinkAttrs: a} }
	for name, port := range map[string]func(netlink.LinkAttrs) netlink.Link{ // order-free: sorted
		"cni0":   func(a netlink.LinkAttrs) netlink.Link { return &netlink.Veth{LinkAttrs: a} },
		"virbr0": func(a netlink.LinkAttrs) netlink.Link { return &netlink.Tuntap{LinkAttrs: a} },
		"lxcbr0": func(a netlink.LinkAttrs) netlink.Link { return &netlink.Dummy{LinkAttrs: a} },
		"br-nic": func(a netlink.LinkAttrs) netlink.Link { return &netlink.Device{LinkAttrs: a} },
		"br-lag": func(a netlink.LinkAttrs) netlink.Link { return &netlink.Bond{LinkAttrs: a} },
		"br-tag": func(a netlink.LinkAttrs) netlink.Link { return &netlink.Vlan{LinkAttrs: a} },
		"br-far": func(a netlink.LinkAttrs) netlink.Link { return &netlink.Vxlan{LinkAttrs: a} },
	} {
		master := add(name, bridge, 0)
		add("vnet0", func(a netlink.LinkAttrs) netlink.Link { return &netlink.Tuntap{LinkAttrs: a} }, master)
		add(name+"-port", port, master)
	}
	add("docker0", bridge, 0)
	add("eth0", func(a netlink.LinkAttrs) netlink.Link { return &netlink.Device{LinkAttrs: a} }, 0)
	one, several := add("br-own", bridge, 0), add("br-two", bridge, 0)
	got := inward(links, []netlink.Route{{LinkIndex: one, Gw: net.IPv4(192, 0, 2, 254)},
		{MultiPath: []*netlink.NexthopInfo{{LinkIndex: several}}}})
	if want := []string{"cni0", "docker0", "lxcbr0", "virbr0"}; !slices.Equal(got, want) {
		t.Errorf("inward-bridge: %v, want %v", got, want)
	}
}
