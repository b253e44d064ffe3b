package pxe

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// ScriptName is what the iPXE script is called in the TFTP root.
const ScriptName = "trivet.ipxe"

// Bounds of a lease: dnsmasq knows none below two minutes.
const (
	LeastLease = 2 * time.Minute
	MostLease  = 24 * time.Hour
)

// Server is the DHCP server of one host.
type Server struct {
	Title     string         // lines that say whose it is and where its pools come from
	Interface string         // on which machines boot
	Addresses []netip.Prefix // of this host there, with their subnets
	Pools     []Pool         // what it gives away; each within a subnet of Addresses
	Router    netip.Addr     // told to machines; invalid: none is
	Lease     time.Duration  // how long an address is a machine's
	Root      string         // of TFTP
	HostsDir  string         // where the PXE filter keeps its lists; "" if not with dnsmasq
}

// loader is the network boot program for one kind of firmware.
type loader struct {
	tag, file string
	arch      []int // as RFC 4578 and its registry number them
	what      string
}

// loaders are in the order in which they are written.
func loaders() []loader {
	return []loader{
		{"bios", "undionly.kpxe", []int{0}, "BIOS"},
		{"efi-x64", "snponly.efi", []int{7, 9}, "UEFI on x86-64; firmware sends either number"},
		{"efi-arm64", "snponly-arm64.efi", []int{11}, "UEFI on 64-bit ARM"},
	}
}

// Files lists what must be in the TFTP root for machines of every kind, the
// script aside.
func Files() []string {
	var files []string
	for _, l := range loaders() {
		files = append(files, l.file)
	}
	return files
}

// Config is the configuration of dnsmasq. It refuses what dnsmasq would not
// take or what would serve nobody.
func (s Server) Config() (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	var b strings.Builder
	for line := range strings.Lines(s.Title) {
		fmt.Fprintf(&b, "# %s\n", strings.TrimSpace(line))
	}
	s.writeHead(&b)
	s.writePools(&b)
	s.writeLoaders(&b)
	s.writeLoaders6(&b)
	return b.String(), nil
}

func (s Server) check() error {
	if len(s.Pools) == 0 {
		return errNoPool
	}
	for _, p := range s.Pools {
		if _, ok := s.subnetOf(p); !ok {
			return fmt.Errorf("pool %v is in no subnet of %s, which has %v", p, s.Interface, s.Addresses)
		}
	}
	if s.Lease < LeastLease || s.Lease > MostLease {
		return fmt.Errorf("a lease of %v is out of bounds, %v to %v", s.Lease, LeastLease, MostLease)
	}
	for i, text := range []string{s.HostsDir, s.Interface, s.Root} {
		if text == "" && i > 0 || strings.ContainsAny(text, "\n\r\"#,\\ ") {
			return fmt.Errorf("%q cannot be written into the configuration of dnsmasq: no blanks, commas, quotes, # and backslashes", text)
		}
	}
	return nil
}

func (s Server) subnetOf(p Pool) (netip.Prefix, bool) {
	i := slices.IndexFunc(s.Addresses, p.Within)
	if i < 0 {
		return netip.Prefix{}, false
	}
	return s.Addresses[i], true
}

// address6 is this host's own IPv6 address there.
func (s Server) address6() (netip.Addr, bool) {
	for _, a := range s.Addresses {
		if a.Addr().Is6() && slices.ContainsFunc(s.Pools, func(p Pool) bool { return p.Within(a) }) {
			return a.Addr(), true
		}
	}
	return netip.Addr{}, false
}

// writeHead says nothing of dhcp-sequential-ip on purpose: without a ping dnsmasq
// forgets what it has offered, and in order all machines that ask at once would
// be offered one address. UEFI over IPv6 asks twice at once by itself, for its
// PXE and for its IP.
func (s Server) writeHead(b *strings.Builder) {
	fmt.Fprintf(b, `
# DHCP and TFTP on one interface alone; no DNS. Port 4011 stays closed: it is
# for boot servers beside somebody else's DHCP server.
port=0
interface=%s
bind-dynamic
log-dhcp

enable-tftp=%s
tftp-root=%s

# The PXE filter decides which of the peers' hosts is heard, so a machine that
# asks must be answered at once: nobody else has these addresses.
no-ping
`, s.Interface, s.Interface, s.Root)
	most := 0
	for _, p := range s.Pools {
		most += p.size()
	}
	fmt.Fprintf(b, "dhcp-lease-max=%d\n", most)
	if s.HostsDir != "" {
		fmt.Fprintf(b, "\n# Who may boot: the PXE filter rewrites these files, and nobody else does.\ndhcp-hostsdir=%s\n", s.HostsDir)
	}
}

func (s Server) writePools(b *strings.Builder) {
	b.WriteString("\n# The addresses that this host gives away, and nobody else.\n")
	for _, p := range s.Pools {
		subnet, _ := s.subnetOf(p)
		mask := fmt.Sprint(subnet.Bits())
		if subnet.Addr().Is4() {
			mask = dotted(subnet.Bits())
		}
		fmt.Fprintf(b, "dhcp-range=%v,%v,%s,%ds\n", p.First, p.Last, mask, int(s.Lease.Seconds()))
	}
	if s.Router.IsValid() {
		fmt.Fprintf(b, "dhcp-option=option:router,%v\n", s.Router)
	} else {
		b.WriteString("# No router: dnsmasq would name itself.\ndhcp-option=option:router\n")
	}
	if _, ok := s.address6(); ok {
		fmt.Fprintf(b, `
# IPv6: router advertisements say that addresses come by DHCP, and with the
# lifetime 0 that this host is no router. Every peer sends them; they open nothing.
enable-ra
ra-param=%s,60,0
`, s.Interface)
	}
}

func dotted(bits int) string {
	mask := uint32(0xffffffff) << (32 - bits)
	return netip.AddrFrom4([4]byte{byte(mask >> 24), byte(mask >> 16), byte(mask >> 8), byte(mask)}).String()
}

// writeLoaders: firmware gets iPXE, and iPXE the script.
func (s Server) writeLoaders(b *strings.Builder) {
	b.WriteString("\n# The firmware is given iPXE, and iPXE, which says that it is one, the script.\n" +
		"dhcp-match=set:ipxe,175\ndhcp-userclass=set:ipxe,iPXE\n" +
		"dhcp-boot=tag:ipxe," + ScriptName + "\n" +
		// The leader may change between the offer and the request, which names the
		// old one: iPXE is not to leave seconds between them.
		"# It is told that there is no proxy DHCP server to wait for.\n" +
		"dhcp-option=tag:ipxe,encap:175,176,1b\n")
	for _, l := range loaders() {
		fmt.Fprintf(b, "# %s.\n", l.what)
		for _, n := range l.arch {
			fmt.Fprintf(b, "dhcp-match=set:%s,option:client-arch,%d\n", l.tag, n)
		}
		fmt.Fprintf(b, "dhcp-boot=tag:!ipxe,tag:%s,%s\n", l.tag, l.file)
	}
}

// writeLoaders6 does the same for DHCPv6, which names files by URL; BIOS does
// not speak it.
func (s Server) writeLoaders6(b *strings.Builder) {
	own, ok := s.address6()
	if !ok {
		return
	}
	b.WriteString("\n# The same over IPv6, which names files by URL.\n")
	fmt.Fprintf(b, "dhcp-option=tag:ipxe,option6:bootfile-url,tftp://[%v]/%s\n", own, ScriptName)
	for _, l := range loaders()[1:] {
		for _, n := range l.arch {
			fmt.Fprintf(b, "dhcp-match=set:%s6,option6:61,00:%02x\n", l.tag, n)
		}
		fmt.Fprintf(b, "dhcp-option=tag:!ipxe,tag:%s6,option6:bootfile-url,tftp://[%v]/%s\n", l.tag, own, l.file)
	}
}
