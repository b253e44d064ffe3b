package hostaddr

import (
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
)

// InwardBridges names the bridges of this host behind which are its own containers and virtual
// machines alone, as behind docker0, cni0 and virbr0, up or not: no other host reaches this one at
// their addresses. A bridge with any other port, such as a NIC, a bond or a VLAN, leads out of the
// host, and so does one with a default route, as in a container whose own NIC is a port of it.
func InwardBridges() ([]string, error) {
	links, err := dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list this host's interfaces: %w", err)
	}
	routes, err := dump(defaultRoutes)
	if err != nil {
		return nil, fmt.Errorf("list this host's default routes: %w", err)
	}
	return inward(links, routes), nil
}

// defaultRoutes lists those of the main table, which may have a million others.
func defaultRoutes() (routes []netlink.Route, err error) {
	err = netlink.RouteListFilteredIter(netlink.FAMILY_ALL, new(netlink.Route), 0, func(r netlink.Route) bool {
		if r.Dst == nil || r.Dst.IP.IsUnspecified() {
			routes = append(routes, r)
		}
		return true
	})
	return routes, err
}

func inward(links []netlink.Link, routes []netlink.Route) (bridges []string) {
	outward := make(map[int]bool) // interfaces, by index
	for _, l := range links {
		switch l.(type) {
		case *netlink.Veth, *netlink.Tuntap, *netlink.Dummy: // of a container, of a virtual machine, of nothing
		default:
			outward[l.Attrs().MasterIndex] = true
		}
	}
	for _, r := range routes {
		outward[r.LinkIndex] = true
		for _, hop := range r.MultiPath {
			outward[hop.LinkIndex] = true
		}
	}
	for _, l := range links {
		if _, bridge := l.(*netlink.Bridge); bridge && !outward[l.Attrs().Index] {
			bridges = append(bridges, l.Attrs().Name)
		}
	}
	slices.Sort(bridges)
	return bridges
}
