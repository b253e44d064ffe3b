// Package netif finds where the packets of an interface arrive in this host's
// packet filter. A rule that names eth1 sees nothing of a machine once eth1 is a
// port of a bridge, and nothing after a rename, while a DHCP server on the bridge
// goes on answering; so the PXE filter looks at its interface all the time.
package netif

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/trivet-ha/trivet/firewall"
)

// maxMasters bounds the masters on top of each other: a bridge over a bond is two.
const maxMasters = 8

// datapath is the device under which the kernel lists the ports of Open vSwitch. No
// packet for the host arrives there: each bridge has an internal port for them.
const datapath = "ovs-system"

// ethernet is what the library calls a link whose frames have MACs. Over IPoIB those of
// 20 bytes would be compared with nothing, and chaddr is zero (RFC 4390 section 2.1).
const ethernet = "ether"

// Place is where the packets of an interface arrive.
type Place struct {
	Index int    // of the interface; 0: there is none of its name
	Name  string // of the interface that the packets arrive on, which rules must name
	Kind  string // of that one, if it is the topmost master; "": it is the interface itself
	Encap string // of its frames, as "ether" or "infiniband"
}

// Links finds the interfaces of a host by name and index. Both return
// netlink.LinkNotFoundError for one that is not there.
type Links struct {
	ByName  func(name string) (netlink.Link, error)
	ByIndex func(index int) (netlink.Link, error)
}

// Kernel finds those of the calling thread's network namespace.
func Kernel() Links { return Links{netlink.LinkByName, netlink.LinkByIndex} }

// Place returns the place of the interface with this name. One that was renamed is
// found by its index, as it was last seen, 0 if it never was.
func (l Links) Place(name string, known int) (Place, error) {
	link, err := l.ByName(name)
	if missing(err) && known != 0 {
		link, err = l.ByIndex(known)
	}
	if missing(err) {
		return Place{Name: name}, nil
	}
	if err != nil {
		return Place{}, fmt.Errorf("look at interface %s: %w", name, err)
	}
	p := Place{Index: link.Attrs().Index, Name: link.Attrs().Name, Encap: link.Attrs().EncapType}
	for range maxMasters {
		master := link.Attrs().MasterIndex
		if master == 0 {
			return p, nil
		}
		if link, err = l.ByIndex(master); err != nil {
			return Place{}, fmt.Errorf("look at the master of interface %s: %w", p.Name, err)
		}
		// On masters of these kinds the packets of their ports arrive, as rules of the input
		// hook see them. Of a VRF the kernel's documentation says so
		// (Documentation/networking/vrf.rst, note 2).
		if !slices.Contains([]string{"bridge", "bond", "team", "openvswitch", "vrf"}, link.Type()) {
			return p, nil
		}
		p.Name, p.Kind, p.Encap = link.Attrs().Name, link.Type(), link.Attrs().EncapType
	}
	return Place{}, fmt.Errorf("interface %s has more than %d masters", name, maxMasters)
}

func missing(err error) bool {
	var not netlink.LinkNotFoundError
	return errors.As(err, &not)
}

// Problem says why a rule that names the configured interface would not see its
// packets, or no MAC in them, nil if it does. It is a firewall.ErrMisplaced.
func (p Place) Problem(configured string) error {
	switch {
	case p.Index == 0:
		return fmt.Errorf("%w: this host has no interface %s", firewall.ErrMisplaced, configured)
	case p.Kind == "openvswitch" || p.Name == datapath:
		return fmt.Errorf(
			"%w: the packets of %s arrive on the internal port of its Open vSwitch bridge; write that port's name, mostly the bridge's, as firewall.interface, and have dnsmasq listen there",
			firewall.ErrMisplaced, configured)
	case p.Kind == "vrf":
		return fmt.Errorf(
			"%w: %s is in the VRF %s, where rules see its packets; write firewall.interface: %s, whose other interfaces are then filtered too, or take %s out of the VRF",
			firewall.ErrMisplaced, configured, p.Name, p.Name, configured)
	case p.Kind != "":
		return fmt.Errorf("%w: %s is a port of %s (%s); write firewall.interface: %s, and have dnsmasq listen there",
			firewall.ErrMisplaced, configured, p.Name, p.Kind, p.Name)
	case p.Name != configured:
		return fmt.Errorf("%w: %s was renamed to %s; write firewall.interface: %s, and have dnsmasq listen there",
			firewall.ErrMisplaced, configured, p.Name, p.Name)
	case p.Encap != ethernet:
		return fmt.Errorf(
			"%w: %s is no Ethernet interface (%s), so that the lists know none of its machines; write one that is",
			firewall.ErrMisplaced, configured, p.Encap)
	}
	return nil
}
