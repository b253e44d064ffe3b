package cli

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/pxe"
)

// usualPeers is how many peers share a subnet unless more have joined.
const usualPeers = 3

// pxeFlags are the words of dnsmasq-config that are no options.
type pxeFlags struct {
	script    bool
	addresses []string
	pools     []string
	peers     int
	router    string
	lease     time.Duration
	root      string
	boot      pxe.Boot
}

func (p *program) dnsmasqCommand() *cobra.Command {
	var f pxeFlags
	c := &cobra.Command{
		Use:   "dnsmasq-config",
		Short: "Print the configuration of dnsmasq for this peer's host, or the script that machines boot",
		Long: "Print the configuration of dnsmasq for this peer's host: DHCP and TFTP on firewall.interface, no DNS, and boot files for BIOS and UEFI.\n" +
			"With --boot-script print the iPXE script that belongs beside them: it boots the ramdisk, which reports to the floating IP.\n\n" +
			"Each peer gives away addresses of its own. With --pool they are the ones you say. Otherwise the upper half of each IPv4 subnet of the\n" +
			"interface is cut into equal parts, one for each peer in the order of their names; of an IPv6 subnet the first peer has the 4096\n" +
			"addresses that end in 1000 to 1fff, the second those in 2000 to 2fff, and so on. The floating IP, the router and the peers' known\n" +
			"addresses are left out; keep the other hosts in the lower half. All peers must have joined and this one must run; when one joins\n" +
			"or leaves, print all of them again. With --pool nobody is asked.\n\n" +
			"In the TFTP root dnsmasq must find " + strings.Join(pxe.Files(), ", ") + " (from iPXE), " + pxe.ScriptName + ", kernel and ramdisk.",
		Example: "  trivet dnsmasq-config > /etc/dnsmasq.d/trivet.conf\n" +
			"  trivet dnsmasq-config --boot-script > /srv/tftp/" + pxe.ScriptName + "\n" +
			"  systemctl restart dnsmasq",
		Args: cobra.NoArgs,
	}
	flags := c.Flags()
	flags.BoolVar(&f.script, "boot-script", false, "print the iPXE script instead")
	flags.StringArrayVar(&f.pools, "pool", nil, "give away FIRST-LAST; may be repeated, for IPv4 and IPv6")
	flags.IntVar(&f.peers, "peers", 0, fmt.Sprintf("how many peers share each subnet (default %d, or as many as have joined)", usualPeers))
	flags.StringArrayVar(&f.addresses, "address", nil, "address of this host where machines boot, as ADDRESS/BITS; may be repeated (default: those of firewall.interface)")
	flags.StringVar(&f.router, "router", "", "IPv4 router that machines are told (default none)")
	flags.DurationVar(&f.lease, "lease-time", 30*time.Minute, "how long an address is a machine's; longer than an introspection takes")
	flags.StringVar(&f.root, "tftp-root", "/srv/tftp", "directory that TFTP serves")
	flags.StringVar(&f.boot.Kernel, "kernel", "ironic-agent.kernel", "kernel of the ramdisk: a name in the TFTP root, or a URL")
	flags.StringVar(&f.boot.Ramdisk, "ramdisk", "ironic-agent.initramfs", "ramdisk: a name in the TFTP root, or a URL")
	flags.StringVar(&f.boot.Arguments, "kernel-args", "", "further arguments of the kernel")
	flags.StringVar(&f.boot.Callback, "callback-url", "", "where the ramdisk reports (default: the API on the floating IP)")
	p.optionFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return p.dnsmasqConfig(c.Context(), f) }
	return c
}

func (p *program) dnsmasqConfig(ctx context.Context, f pxeFlags) error {
	conf, err := p.load()
	if err != nil {
		return err
	}
	if f.script {
		return p.printScript(conf, f.boot)
	}
	server, err := p.dhcpServer(ctx, conf, f)
	if err != nil {
		return err
	}
	text, err := server.Config()
	if err != nil {
		return fail(ExitUsage, "see 'trivet dnsmasq-config --help'", "dnsmasq-config: %w", err)
	}
	fmt.Fprint(p.out, text)
	p.say("for instance as /etc/dnsmasq.d/trivet.conf; the script beside the boot files: 'trivet dnsmasq-config --boot-script > %s/%s'", f.root, pxe.ScriptName)
	return nil
}

func (p *program) printScript(conf config.Config, boot pxe.Boot) error {
	if boot.Callback == "" {
		address, err := netip.ParseAddr(conf.FloatingIP.Address)
		if err != nil {
			return fail(ExitUsage, "write floating_ip.address and floating_ip.interface, or say where with --callback-url",
				"dnsmasq-config: floating_ip.address is not written, and any other address dies with its host")
		}
		_, port, err := net.SplitHostPort(conf.API.Listen)
		if err != nil {
			return fail(ExitUsage, "mend it", "api.listen: %w", err)
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return fail(ExitUsage, "give the API a fixed port", "api.listen: %s has no port that can be written down", conf.API.Listen)
		}
		tls := conf.API.TLS.Certificate != config.TLSOff
		boot.Callback = pxe.Callback(address, uint16(number), tls)
		if tls {
			p.say("the ramdisk must trust the API's certificate: put its CA into it, or say --kernel-args ipa-insecure=1")
		}
	}
	text, err := boot.Script()
	if err != nil {
		return fail(ExitUsage, "see 'trivet dnsmasq-config --help'", "dnsmasq-config: %w", err)
	}
	fmt.Fprint(p.out, text)
	return nil
}

// dhcpServer gathers what dnsmasq is told.
func (p *program) dhcpServer(ctx context.Context, conf config.Config, f pxeFlags) (pxe.Server, error) {
	s := pxe.Server{Interface: conf.Firewall.Interface, Lease: f.lease, Root: f.root}
	if conf.Firewall.Driver == "dnsmasq" {
		s.HostsDir = conf.Firewall.DHCPHostsDir
	}
	var err error
	if f.router != "" {
		if s.Router, err = netip.ParseAddr(f.router); err != nil || !s.Router.Is4() {
			return s, usage("--router %s: it is an IPv4 address; IPv6 routers announce themselves", f.router)
		}
	}
	if s.Addresses, err = pxeAddresses(conf.Firewall.Interface, f.addresses); err != nil {
		return s, err
	}
	if len(f.pools) == 0 {
		return s, p.share(ctx, conf, &s, f.peers)
	}
	for _, text := range f.pools {
		pool, err := pxe.ParsePool(text)
		if err != nil {
			return s, usage("--pool: %w", err)
		}
		s.Pools = append(s.Pools, pool)
	}
	s.Title = fmt.Sprintf("dnsmasq for %s, by 'trivet dnsmasq-config'.\nThe pools were given by hand; no other peer may have the same addresses.", conf.Name)
	return s, nil
}

// pxeAddresses are those of this host where machines boot: given by hand, or
// those of the interface that have a subnet.
func pxeAddresses(name string, given []string) ([]netip.Prefix, error) {
	var found []netip.Prefix
	for _, text := range given {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, usage("--address: %q is no address with its subnet; write ADDRESS/BITS, as in 192.0.2.1/24", text)
		}
		found = append(found, prefix)
	}
	if len(found) > 0 {
		return found, nil
	}
	link, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fail(ExitUsage, "write firewall.interface, or say which addresses it has with --address", "firewall.interface: %s: %w", name, err)
	}
	addrs, err := link.Addrs()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of %s: %w", name, err)
	}
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && prefix.Addr().IsGlobalUnicast() && !prefix.IsSingleIP() { // a single one is the floating IP
			found = append(found, prefix)
		}
	}
	if len(found) == 0 {
		return nil, fail(ExitUsage, "give it an address, or say which it will have with --address", "firewall.interface: %s has no address with a subnet", name)
	}
	return found, nil
}

// share takes this peer's part of each subnet.
func (p *program) share(ctx context.Context, conf config.Config, s *pxe.Server, parts int) error {
	name, members, err := p.company(ctx)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(members))
	keep := []netip.Addr{s.Router}
	for _, m := range members {
		names = append(names, m.Name)
		if at, err := netip.ParseAddrPort(m.Address); err == nil { // else it is a name
			keep = append(keep, at.Addr())
		}
	}
	slices.Sort(names)
	if parts == 0 {
		parts = max(usualPeers, len(names))
	}
	if len(names) != parts {
		return fail(ExitConflict, "wait until all have joined ('trivet members'), say how many there are with --peers, or give the addresses with --pool",
			"dnsmasq-config: the subnet is shared by %d peers, and %d have joined: %v", parts, len(names), names)
	}
	part := slices.Index(names, name)
	if at, err := netip.ParseAddr(conf.FloatingIP.Address); err == nil {
		keep = append(keep, at)
	}
	for _, a := range s.Addresses {
		keep = append(keep, a.Addr())
	}
	for _, subnet := range subnets(s.Addresses) {
		pools, err := pxe.Share(subnet, part, parts, keep)
		if err != nil {
			return fail(ExitUsage, "give each peer addresses of its own with --pool", "dnsmasq-config: %w", err)
		}
		s.Pools = append(s.Pools, pools...)
	}
	s.Title = fmt.Sprintf("dnsmasq for %s, part %d of %d of the subnet, by 'trivet dnsmasq-config'.\nThe peers share it in the order of their names: %s.\nWhen one joins or leaves, print all of them again.",
		name, part+1, parts, strings.Join(names, ", "))
	return nil
}

// subnets are those of the addresses, each once.
func subnets(addresses []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, a := range addresses {
		if m := a.Masked(); !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// company is who this peer is and who else there is.
func (p *program) company(ctx context.Context) (name string, members []api.Member, err error) {
	peer := p.peer()
	var s api.Status
	if err := peer.call(ctx, "GET", "/v1/status", nil, &s); err != nil {
		return "", nil, err
	}
	err = peer.call(ctx, "GET", staleable("/v1/members", true), nil, &members)
	return s.Name, members, err
}
