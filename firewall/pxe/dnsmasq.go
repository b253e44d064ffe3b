package pxe

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Where things are unless the operator says otherwise.
const (
	ConfFile   = "/etc/dnsmasq.d/trivet.conf" // which dnsmasq reads on Debian and on rpm distributions
	Root       = "/srv/tftp"                  // of TFTP
	ScriptName = "trivet.ipxe"                // the iPXE script, in the TFTP root
	Kernel     = "ironic-agent.kernel"        // of the ramdisk, in the TFTP root
	Ramdisk    = "ironic-agent.initramfs"
)

// Bounds of a lease: dnsmasq knows none below two minutes.
const (
	LeastLease = 2 * time.Minute
	MostLease  = 24 * time.Hour
)

// Bounds of simultaneous TFTP transfers: what dnsmasq allows by itself, and what
// it can have with 1024 open files, systemd's default for a service.
const (
	leastTransfers = 50
	mostTransfers  = 900
)

// relayedLeases is the room for leases of ranges that stand in other files, for
// machines behind relays: dnsmasq's limit counts those of all ranges.
const relayedLeases = 10_000

// Server is the DHCP server of one host.
type Server struct {
	Title     string         // lines that say whose it is and where its pools come from
	Interface string         // on which machines boot
	Addresses []netip.Prefix // of this host there, with their subnets
	Pools     []Pool         // what it gives away; each within a subnet of Addresses
	Router    netip.Addr     // told to machines in its subnet; invalid: none is
	Lease     time.Duration  // how long an address is a machine's
	Root      string         // of TFTP
	HostsDir  string         // where the PXE filter keeps its lists; "" if not with dnsmasq
	Batch     int            // machines that boot at about the same time
	// Without names those of Files that the TFTP root lacks: machines of that kind
	// are offered no boot file.
	Without []string
	// LoaderURLs are where HTTP servers have the loaders, for firmware that boots by
	// HTTP: the first that a protocol reaches counts.
	LoaderURLs []string
	// BindInterfaces writes bind-interfaces instead of bind-dynamic, which dnsmasq
	// refuses together: for a host whose other files have the former.
	BindInterfaces bool
}

// Config is the configuration of dnsmasq, signed (see Sign). It refuses what
// dnsmasq would not take or what would serve no machine.
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
	return Sign(b.String()), nil
}

func (s Server) check() error {
	if len(s.Pools) == 0 {
		return errNoPool
	}
	for _, p := range s.Pools {
		if s.subnetOf(p) < 0 {
			return fmt.Errorf("pool %v is in no subnet of %s, which has %v", p, s.Interface, s.Addresses)
		}
	}
	if s.Router.IsValid() && !slices.ContainsFunc(s.Addresses, func(a netip.Prefix) bool { return a.Contains(s.Router) }) {
		return fmt.Errorf("router %v is in no subnet of %s, which has %v", s.Router, s.Interface, s.Addresses)
	}
	if s.Lease < LeastLease || s.Lease > MostLease {
		return fmt.Errorf("a lease of %v is out of bounds, %v to %v", s.Lease, LeastLease, MostLease)
	}
	for _, text := range s.LoaderURLs {
		if u, err := url.Parse(text); err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("invalid loader URL %q: want http://HOST/DIRECTORY", text)
		}
	}
	for i, text := range slices.Concat([]string{s.Interface, s.Root, s.HostsDir}, s.LoaderURLs) {
		if text == "" && i < 2 || strings.ContainsAny(text, "\n\r\"#,\\ ") {
			return fmt.Errorf(
				"%q cannot be written into the configuration of dnsmasq: no blanks, commas, quotes, # and backslashes", text)
		}
	}
	return nil
}

// subnetOf is the place in Addresses of a pool's subnet; negative: it is in none.
func (s Server) subnetOf(p Pool) int { return slices.IndexFunc(s.Addresses, p.Within) }

// subnet is one of Addresses that has pools.
type subnet struct {
	netip.Prefix
	tag string // of its ranges: what is true in one subnet is not told in another
}

// subnets are those of IPv4, or of IPv6. Ranges of other files, for machines behind
// relays, have none of their tags.
func (s Server) subnets(six bool) (out []subnet) {
	for i, a := range s.Addresses {
		if a.Addr().Is6() == six && slices.ContainsFunc(s.Pools, func(p Pool) bool { return s.subnetOf(p) == i }) {
			out = append(out, subnet{a, tagOf(i)})
		}
	}
	return out
}

func tagOf(address int) string { return fmt.Sprintf("subnet%d", address+1) }

// writeHead leaves dhcp-sequential-ip out on purpose (docs/pxe.md has figures):
// dnsmasq remembers no offer, so in sequence all machines that ask at once would
// be offered the same address, of which one machine gets it. Without the option
// each MAC begins to look for a free address at a place of its own; where two places
// are one, the PXE filter drops the second offer (docs/design.md#offers).
func (s Server) writeHead(b *strings.Builder) {
	bind := "bind-dynamic"
	if s.BindInterfaces {
		bind = "bind-interfaces"
	}
	fmt.Fprintf(b, `
# DHCP and TFTP on one interface alone; no DNS. Port 4011 stays closed: it is
# for boot servers next to another DHCP server.
port=0
interface=%s
%s
log-dhcp

# As many transfers at once as machines boot at once, within what 1024 open files allow.
enable-tftp=%s
tftp-root=%s
tftp-max=%d

# The PXE filter decides which of the peers' hosts hears a machine. That host
# answers at once: no other server grants these addresses.
no-ping

# One IPv4 address for a MAC: firmware, iPXE and ramdisk send different client
# identifiers, for which dnsmasq would grant three. Needs dnsmasq 2.81.
dhcp-ignore-clid
`, s.Interface, bind, s.Interface, s.Root, min(max(s.Batch, leastTransfers), mostTransfers))
	four, six := s.count()
	fmt.Fprintf(b, "# Leases of all files together, with room for machines behind relays.\ndhcp-lease-max=%d\n",
		four+six+relayedLeases)
	if s.HostsDir != "" {
		fmt.Fprintf(b, "\n# Who may boot: only the PXE filter writes these files.\ndhcp-hostsdir=%s\n", s.HostsDir)
	}
}

func (s Server) writePools(b *strings.Builder) {
	b.WriteString("\n# The addresses that this host grants, and no other host.\n")
	for _, p := range s.Pools {
		i := s.subnetOf(p)
		mask := fmt.Sprint(s.Addresses[i].Bits())
		if p.First.Is4() {
			mask = net.IP(net.CIDRMask(s.Addresses[i].Bits(), 32)).String()
		}
		fmt.Fprintf(b, "dhcp-range=set:%s,%v,%v,%s,%ds\n", tagOf(i), p.First, p.Last, mask, int(s.Lease.Seconds()))
	}
	for _, n := range s.subnets(false) {
		if n.Contains(s.Router) {
			fmt.Fprintf(b, "dhcp-option=tag:%s,option:router,%v\n", n.tag, s.Router)
		} else {
			fmt.Fprintf(b, "# No router there: dnsmasq would name itself.\ndhcp-option=tag:%s,option:router\n", n.tag)
		}
	}
	if len(s.subnets(true)) > 0 {
		fmt.Fprintf(b, `
# IPv6: router advertisements say that addresses come by DHCP, and with the
# lifetime 0 that this host is no router. Every peer sends them; they open nothing.
enable-ra
ra-param=%s,60,0
`, s.Interface)
	}
}

// writeLoaders: firmware gets iPXE, and iPXE the script.
func (s Server) writeLoaders(b *strings.Builder) {
	b.WriteString("\n# The firmware is given iPXE, and iPXE, which says that it is one, the script.\n" +
		"dhcp-match=set:ipxe,175\ndhcp-userclass=set:ipxe,iPXE\n" +
		"dhcp-boot=tag:ipxe," + ScriptName + "\n" +
		// The leader may change between the offer and the request, which names the
		// old one: iPXE is not to leave seconds between them.
		"# This option tells iPXE not to wait for a proxy DHCP server.\n" +
		"dhcp-option=tag:ipxe,encap:175,176,1b\n")
	for _, l := range Loaders() {
		if slices.Contains(s.Without, l.File) {
			fmt.Fprintf(b, "# No %s: %s is not in %s.\n", l.What, l.File, s.Root)
			continue
		}
		fmt.Fprintf(b, "# %s.\n", l.What)
		for _, n := range l.arch {
			fmt.Fprintf(b, "dhcp-match=set:%s,option:client-arch,%d\n", l.tag, n)
		}
		// Firmware may name its kind in its vendor class alone.
		for _, n := range l.arch {
			fmt.Fprintf(b, "dhcp-vendorclass=set:%s,PXEClient:Arch:%05d\n", l.tag, n)
		}
		fmt.Fprintf(b, "dhcp-boot=tag:!ipxe,tag:%s,%s\n", l.tag, l.File)
	}
	// PXE firmware that says nothing of its kind is older than UEFI.
	if bios := Loaders()[0]; !slices.Contains(s.Without, bios.File) {
		b.WriteString("# PXE firmware that does not name its kind is BIOS.\n" +
			"dhcp-vendorclass=set:pxe,PXEClient\ndhcp-vendorclass=set:named,PXEClient:Arch:\ndhcp-match=set:named,option:client-arch\n")
		fmt.Fprintf(b, "dhcp-boot=tag:!ipxe,tag:pxe,tag:!named,%s\n", bios.File)
	}
	// Firmware that boots by HTTP wants a URL, and to be told by the vendor class that
	// the answer is for it.
	s.eachHTTP(b, false, func(tag, file string, arch int) {
		fmt.Fprintf(b, "dhcp-match=set:%s,option:client-arch,%d\n", tag, arch)
		fmt.Fprintf(b, "dhcp-option-force=tag:!ipxe,tag:%s,option:vendor-class,HTTPClient\n", tag)
		fmt.Fprintf(b, "dhcp-boot=tag:!ipxe,tag:%s,%s\n", tag, file)
	})
}

// eachHTTP calls write for each kind of firmware that is served by HTTP over IPv4 or
// IPv6, from the first directory of loaders that this protocol reaches.
func (s Server) eachHTTP(b *strings.Builder, six bool, write func(tag, file string, arch int)) {
	at := slices.IndexFunc(s.LoaderURLs, func(text string) bool { // by an address of its own, or by a name
		u, err := url.Parse(text)
		if err != nil {
			return false // Config has refused it
		}
		ip, err := netip.ParseAddr(u.Hostname())
		return err != nil || ip.Is4() != six
	})
	if at < 0 {
		family := "IPv4"
		if six {
			family = "IPv6"
		}
		fmt.Fprintf(b,
			"# No UEFI HTTP boot: no HTTP server is named that %s reaches (--loader-url). Machines set to it get an address and nothing to boot.\n",
			family)
		return
	}
	directory := strings.TrimSuffix(s.LoaderURLs[at], "/")
	b.WriteString("# UEFI HTTP boot.\n")
	for _, l := range Loaders() {
		if slices.Contains(s.Without, l.File) {
			continue
		}
		for _, n := range l.http {
			write("http-"+l.tag, directory+"/"+l.File, n)
		}
	}
}

// writeLoaders6 does the same for DHCPv6, which names files by URL; BIOS does
// not speak it.
func (s Server) writeLoaders6(b *strings.Builder) {
	subnets := s.subnets(true)
	if len(subnets) == 0 {
		return
	}
	b.WriteString("\n# The same over IPv6, which names files by URL.\n")
	byTFTP := func(tags, file string) {
		for _, n := range subnets {
			fmt.Fprintf(b, "dhcp-option=tag:%s,%s,option6:bootfile-url,tftp://[%v]/%s\n", n.tag, tags, n.Addr(), file)
		}
	}
	byTFTP("tag:ipxe", ScriptName)
	for _, l := range Loaders()[1:] {
		if slices.Contains(s.Without, l.File) {
			continue
		}
		for _, n := range l.arch {
			fmt.Fprintf(b, "dhcp-match=set:%s6,option6:61,00:%02x\n", l.tag, n)
		}
		byTFTP(fmt.Sprintf("tag:!ipxe,tag:%s6", l.tag), l.File)
	}
	// A vendor class begins with the number of an enterprise here, which firmware does not
	// look at, in four bytes; then come texts, each after its length in two. dnsmasq writes
	// texts alone, of which a first one of two letters fills those four bytes.
	s.eachHTTP(b, true, func(tag, file string, arch int) {
		fmt.Fprintf(b, "dhcp-match=set:%s6,option6:61,00:%02x\n", tag, arch)
		fmt.Fprintf(b, "dhcp-option-force=tag:!ipxe,tag:%s6,option6:16,tr,HTTPClient\n", tag)
		fmt.Fprintf(b, "dhcp-option=tag:!ipxe,tag:%s6,option6:bootfile-url,%s\n", tag, file)
	})
}
