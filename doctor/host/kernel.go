package host

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/trivet-ha/trivet/doctor"
)

// links lists the interfaces and who has the floating IP.
func (g *gathering) links() {
	links, err := Links()
	if err != nil {
		g.gap("filter", err.Error())
	}
	if err := ReadARPIgnore(g.o.proc, g.facts.Plan.FloatingInterface, links); err != nil {
		g.gap("floating-ip", err.Error())
	}
	g.facts.Links = links
	g.facts.Address.Present = Holding(links, g.facts.Plan.FloatingIP)
}

// maxLinks bounds the interfaces that are looked at; a host with more is no host
// of ours.
const maxLinks = 1024

// Links lists the interfaces of this host with their addresses: two questions
// to the kernel, however many there are.
func Links() ([]doctor.Link, error) {
	interfaces, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list this host's interfaces: %w", err)
	}
	names := make(map[int]string)
	for _, i := range interfaces {
		names[i.Attrs().Index] = i.Attrs().Name
	}
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list this host's addresses: %w", err)
	}
	byLink := make(map[int][]netip.Prefix)
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.IPNet.String()); err == nil {
			byLink[a.LinkIndex] = append(byLink[a.LinkIndex], p)
		}
	}
	var out []doctor.Link
	for _, i := range interfaces[:min(len(interfaces), maxLinks)] {
		a := i.Attrs()
		link := doctor.Link{Name: a.Name, MAC: a.HardwareAddr.String(), Up: a.Flags&net.FlagUp != 0,
			Addresses: byLink[a.Index]}
		if a.MasterIndex != 0 {
			link.Master = names[a.MasterIndex]
		}
		out = append(out, link)
	}
	return out, nil
}

// ReadARPIgnore adds to the link of a name what the kernel, seen through proc,
// makes of the sysctl arp_ignore there: the greater of its own value and that of
// all links. A link that is not there has none.
func ReadARPIgnore(proc, name string, links []doctor.Link) error {
	i := slices.IndexFunc(links, func(l doctor.Link) bool { return l.Name == name })
	if i < 0 {
		return nil
	}
	for _, of := range []string{"all", name} {
		text, err := readBounded(filepath.Join(proc, "sys/net/ipv4/conf", of, "arp_ignore"), 16)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the packaged unit hides /proc/sys (ProcSubset=pid): trivet init, which root runs, sees it
		}
		if err != nil {
			return fmt.Errorf("read arp_ignore of %s: %w", of, err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return fmt.Errorf("read arp_ignore of %s: %w", of, err)
		}
		links[i].ARPIgnore = max(links[i].ARPIgnore, n)
	}
	return nil
}

// Holding are the names of the links that have the address.
func Holding(links []doctor.Link, address string) []string {
	want, err := netip.ParseAddr(address)
	if err != nil {
		return nil
	}
	var out []string
	for _, l := range links {
		if slices.ContainsFunc(l.Addresses, func(p netip.Prefix) bool { return p.Addr() == want }) {
			out = append(out, l.Name)
		}
	}
	return out
}

// The ports and protocols that are looked for.
const (
	portDHCP  = 67
	portDHCP6 = 547
	portTFTP  = 69
	protoVRRP = 112
)

// sockets looks at which sockets there are in this network namespace. A kernel without
// socket diagnostics tells of no port to which interface it is bound: each counts.
func (g *gathering) sockets() {
	if err := g.holders(); err != nil {
		g.facts.DHCP.Listening = hasSocketOn(g.table("udp"), portDHCP) || hasSocketOn(g.table("udp6"), portDHCP6)
	}
	g.facts.Address.VRRP = hasSocketOn(g.table("raw"), protoVRRP) || hasSocketOn(g.table("raw6"), protoVRRP)
}

// holders notes which program has DHCP's port, and the ports of a boot server that
// programs have, but for those of other interfaces, as that of libvirt's dnsmasq on virbr0,
// and of dnsmasq where it is known to be that.
func (g *gathering) holders() error {
	own, _ := net.InterfaceByName(g.o.Config.Firewall.Interface) // may be missing
	d := &g.facts.DHCP
	for _, port := range []uint16{portDHCP, portTFTP, portDHCP6} {
		holders, err := g.o.holdersOf("udp", netip.AddrPortFrom(netip.IPv6Unspecified(), port))
		if err != nil {
			return err
		}
		for _, h := range holders {
			if h.Device != 0 && (own == nil || int(h.Device) != own.Index) {
				continue
			}
			d.Listening = d.Listening || port != portTFTP
			if port != portTFTP && strings.HasSuffix(h.Unit, ".service") && !slices.Contains(g.servers, h.Unit) {
				g.servers = append(g.servers, h.Unit)
			}
			if port == portDHCP && d.Program == "" {
				d.Program = h.Program
			}
			if h.Program != "dnsmasq" && h.Unit != "dnsmasq.service" {
				d.Taken = append(d.Taken, doctor.Taken{Port: port, By: h.String(), Unit: h.Unit})
			}
		}
	}
	return nil
}

// table reads a file of the kernel about sockets, without its first line.
func (g *gathering) table(name string) [][]string {
	const most = 8 << 20 // bytes
	text, err := readBounded(filepath.Join(g.o.proc, "self/net", name), most)
	if err != nil {
		return nil // a kernel without IPv6, or without raw sockets
	}
	var out [][]string
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Scan()
	for lines.Scan() {
		out = append(out, strings.Fields(lines.Text()))
	}
	return out
}

// hasSocketOn reports whether a socket has the port, or in raw the protocol.
func hasSocketOn(table [][]string, port uint16) bool {
	end := fmt.Sprintf(":%04X", port)
	return slices.ContainsFunc(table,
		func(fields []string) bool { return len(fields) > 1 && strings.HasSuffix(fields[1], end) })
}
