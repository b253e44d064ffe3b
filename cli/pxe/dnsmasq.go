package pxe

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/firewall/pxe/install"
	"github.com/trivet-ha/trivet/internal/hostaddr"
)

// usualPeers is how many peers share a subnet unless more have joined.
const usualPeers = 3

// poolsByHand is in the title of a configuration with --pool.
const poolsByHand = "The pools were given by hand; no other peer may have the same addresses."

// pxeModes say what dnsmasq-config does.
type pxeModes struct{ script, install, uninstall, force, dry, forget bool }

// pxeFlags are the words of dnsmasq-config that are no options.
type pxeFlags struct {
	pxeModes

	addresses []string
	pools     []string
	peers     int
	reserve   int
	batch     int
	router    string
	lease     time.Duration // 0: chosen from pool and batch
	root      string
	loaders   []string // URLs of a directory
	boot      pxe.Boot

	kept kept // by an earlier --install
}

// Dnsmasq is 'trivet dnsmasq-config'.
func Dnsmasq(t *term.Terminal, peer term.Peer, set *options.Set, on *install.Host) *cobra.Command {
	var f pxeFlags
	c := &cobra.Command{
		Use:   "dnsmasq-config",
		Short: "Make this peer's host a DHCP and TFTP server, or print what dnsmasq and iPXE need for that",
		Long: "Print the configuration of dnsmasq for this peer's host: DHCP and TFTP on firewall.interface, no DNS, and boot files for BIOS and UEFI.\n" +
			"With --boot-script print the iPXE script that belongs next to them: it boots the ramdisk, which reports to the floating IP or, where it cannot\n" +
			"connect, to one host after the other: at /v1/continue, or with inspection.continue_inspection relay at /v1/continue_inspection.\n" +
			"A ramdisk with ironic-python-agent before 9.9 knows no list: name one URL with --callback-url.\n\n" +
			"--install writes both where they belong, " + pxe.ConfFile + " and " + pxe.ScriptName +
			" in the TFTP root, links iPXE's programs from the\n" +
			"distribution's package there (ipxe of Debian and Ubuntu, ipxe-bootimgs-x86 of Fedora and RHEL), lets dnsmasq test its file, enables and\n" +
			"starts dnsmasq, and says what it changed. It may be repeated. A step that fails takes the earlier ones back. --uninstall restores what was\n" +
			"there before, whether dnsmasq was enabled and running included. Files that were changed by hand are neither replaced nor removed\n" +
			"without --force. Both need root. With --dry-run they look and refuse alike, and print steps and files as a diff instead.\n\n" +
			"What the last --install on this host was told by a flag counts again, also for what is printed, until the flag is said otherwise, and\n" +
			"the command names it. --router '' takes a text back, --reserve 0 a number, --forget all. Of files that an earlier version installed,\n" +
			"which recorded no flags, they are read.\n\n" +
			"Each peer grants addresses of its own, because a lease outlives the leadership of the host that granted it. With --pool they are the\n" +
			"ones you say. Otherwise the upper half of each IPv4 subnet of the interface, or what --reserve leaves of it, is cut into equal parts, one\n" +
			"for each peer in the order of their names; of an IPv6 subnet the first peer has the 4096 addresses that end in 1000 to 1fff, the second\n" +
			"those in 2000 to 2fff, and so on. The floating IP, the router and the addresses of the peers' hosts are left out, and those of a host\n" +
			"that does not answer warned of; keep the other hosts in the reserved part. All peers must have joined and this one must run; when one\n" +
			"joins or leaves, repeat it on all. With --pool no peer is asked.\n\n" +
			"Only the leader's host answers, so each pool should hold a whole batch of machines that boot at about the same time (--batch). Leases\n" +
			fmt.Sprintf(
				"last %v where it holds two batches, else %v; where it holds less than one, a warning says what would.\n\n",
				pxe.UsualLease, pxe.ShortLease) +
			"In the TFTP root dnsmasq must find " + strings.Join(pxe.Files(), ", ") + " (from iPXE), " + pxe.ScriptName +
			", kernel and ramdisk.",
		Example: "  trivet dnsmasq-config --install --dry-run\n  trivet dnsmasq-config --install\n" +
			"  trivet dnsmasq-config --install --kernel http://192.0.2.5/ipa.kernel --ramdisk http://192.0.2.5/ipa.initramfs\n" +
			"  trivet dnsmasq-config | diff " + pxe.ConfFile + " -\n" +
			"  trivet dnsmasq-config --uninstall",
	}
	flags := c.Flags()
	flags.BoolVar(&f.script, "boot-script", false, "print the iPXE script instead")
	flags.BoolVar(&f.install, "install", false,
		"write the files where they belong, link iPXE's programs, enable and start dnsmasq")
	flags.BoolVar(&f.uninstall, "uninstall", false, "take back what --install did")
	flags.BoolVar(&f.force, "force", false,
		"with --install: replace files that were changed by hand; those from before the first --install are kept as FILE~. With --uninstall: remove them")
	term.DryRunFlag(c, &f.dry)
	flags.BoolVar(&f.forget, "forget", false,
		"go by the flags of this line alone, not by those of the last --install, too")
	flags.StringArrayVar(&f.pools, "pool", nil, "grant FIRST-LAST; may be repeated, for IPv4 and IPv6")
	flags.IntVar(&f.peers, "peers", 0,
		fmt.Sprintf("how many peers share each subnet (default %d, or as many as have joined)", usualPeers))
	flags.IntVar(&f.reserve, "reserve", 0,
		"addresses at the start of each IPv4 subnet that are left to hosts, the same on all peers (default: half of the subnet)")
	flags.IntVar(&f.batch, "batch", pxe.DefaultBatch, "machines that boot at about the same time")
	flags.StringArrayVar(&f.addresses, "address", nil,
		"address of this host where machines boot, as ADDRESS/BITS; may be repeated (default: those of firewall.interface)")
	flags.StringVar(&f.router, "router", "", "IPv4 router that machines in its subnet are told (default none)")
	flags.DurationVar(&f.lease, "lease-time", 0,
		"how long a machine keeps an address (default: chosen from pool and --batch)")
	flags.StringVar(&f.root, "tftp-root", pxe.Root, "directory that TFTP serves")
	flags.StringArrayVar(&f.loaders, "loader-url", nil,
		"directory of an HTTP server that has iPXE's programs, too: for UEFI HTTP boot; may be repeated, for IPv4 and IPv6 (default: such machines are not served)")
	flags.StringVar(&f.boot.Kernel, "kernel", pxe.Kernel, "kernel of the ramdisk: a name in the TFTP root, or a URL")
	flags.StringVar(&f.boot.Ramdisk, "ramdisk", pxe.Ramdisk, "ramdisk: a name in the TFTP root, or a URL")
	flags.StringVar(&f.boot.Arguments, "kernel-args", "", "further arguments of the kernel")
	flags.StringVar(&f.boot.Callback, "callback-url", "",
		"where the ramdisk reports; several with commas between (default: api.ramdisk_listen on the floating IP, then on each peer's host, then api.listen on the floating IP)")
	set.Flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		return dnsmasqConfig(c.Context(), t, peer, set, on, flags, &f)
	}
	return c
}

func dnsmasqConfig(ctx context.Context, t *term.Terminal, peer term.Peer, set *options.Set, on *install.Host,
	flags *pflag.FlagSet, f *pxeFlags) error {
	switch {
	case f.script && (f.install || f.uninstall) || f.install && f.uninstall:
		return term.Usage("say one of --boot-script, --install and --uninstall")
	case f.force && !f.install && !f.uninstall:
		return term.Usage("--force belongs to --install or --uninstall")
	case f.dry && !f.install && !f.uninstall:
		return term.Usage("--dry-run belongs to --install or --uninstall")
	case f.uninstall:
		return uninstallBoot(ctx, t, on, *f)
	}
	if set.Port != "" { // this host would grant that one's addresses
		return term.Fail(term.ExitUsage, "run it on that host; on this one without --peer and $TRIVET_PEER",
			"dnsmasq-config: it is about this host, and --peer names the peer at %s", set.Port)
	}
	conf, err := set.Load()
	if err != nil {
		return err
	}
	if err := f.complete(t, on, conf, flags); err != nil {
		return err
	}
	if f.script {
		boot, err := bootOf(ctx, t, peer, conf, f.boot)
		if err != nil {
			return err
		}
		text, err := boot.Script()
		if err != nil {
			return badBoot(err)
		}
		fmt.Fprint(t.Out, text)
		return nil
	}
	server, err := dhcpServer(ctx, t, peer, conf, *f)
	if err != nil {
		return err
	}
	if f.install {
		return installBoot(ctx, t, peer, on, conf, *f, server)
	}
	text, err := server.Config()
	if err != nil {
		return badBoot(err)
	}
	fmt.Fprint(t.Out, text)
	t.Say("'trivet dnsmasq-config --install' writes it to %s, and the boot script to %s/%s", pxe.ConfFile, f.root,
		pxe.ScriptName)
	return nil
}

// badBoot is a mistake in what dnsmasq or iPXE are to be told.
func badBoot(err error) error {
	return term.Fail(term.ExitUsage, "see 'trivet dnsmasq-config --help'", "dnsmasq-config: %w", err)
}

// bootOf completes what the ramdisk is told.
func bootOf(ctx context.Context, t *term.Terminal, peer term.Peer, conf config.Config, boot pxe.Boot) (pxe.Boot,
	error) {
	if boot.Callback != "" {
		return boot, nil
	}
	key, listen := conf.API.Ramdisks()
	port, err := fixedPort(key, listen)
	if err != nil {
		return boot, err
	}
	hosts, err := callbackHosts(ctx, t, peer, conf)
	if err != nil {
		return boot, err
	}
	for _, p := range conf.CheckPairs() {
		if p.Key == key { // the script would call where nothing answers
			t.Warn("%v", p)
		}
	}
	urls := term.Each(hosts, func(host string) string { return callbackURL(conf, host, port) })
	single := urls[0]
	if old, err := fixedPort("api.listen", conf.API.Listen); err == nil && old != port && conf.FloatingIP.Address != "" {
		// A host that goes back to v0.2.0 answers ramdisks there alone.
		single = callbackURL(conf, conf.FloatingIP.Address, old)
		urls = append(urls, single)
	}
	boot.Callback = strings.Join(urls, ",")
	if len(urls) > 1 {
		t.Say(
			"the ramdisk is given %d URLs, which ironic-python-agent 9.9 and later takes; with an older one say --callback-url %s",
			len(urls), single)
	}
	if conf.API.TLS.Certificate != config.TLSOff {
		t.Say("the ramdisk must trust the API's certificate: put its CA into it, or say --kernel-args ipa-insecure=1")
	}
	return boot, nil
}

// fixedPort is that of an address which an option has.
func fixedPort(key, listen string) (uint16, error) {
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return 0, term.Fail(term.ExitUsage, "mend it", "%s: %w", key, err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return 0, term.Fail(term.ExitUsage, "give the API a fixed port",
			"%s: %s has no port that can be written down", key, listen)
	}
	return uint16(number), nil
}

// callbackURL is where a host takes the documents of ramdisks.
func callbackURL(conf config.Config, host string, port uint16) string {
	path := "/v1/continue"
	if conf.Inspection.ContinueInspection == config.ContinueRelay {
		path = "/v1/continue_inspection" // the document is for Ironic
	}
	return pxe.Callback(host, port, conf.API.TLS.Certificate != config.TLSOff, path)
}

// callbackHosts are where ramdisks call: the floating IP, and the host of each peer in the
// order of their names.
func callbackHosts(ctx context.Context, t *term.Terminal, peer term.Peer, conf config.Config) (hosts []string,
	err error) {
	if conf.FloatingIP.Address != "" {
		hosts = append(hosts, conf.FloatingIP.Address)
	}
	_, members, err := membersKnown(ctx, peer)
	slices.SortStableFunc(members, func(a, b admin.Member) int { return strings.Compare(a.Name, b.Name) })
	for _, m := range members {
		host, _, badly := net.SplitHostPort(m.API)
		at, named := netip.ParseAddr(host)
		local := host == "localhost" || named == nil && (at.IsLoopback() || at.IsUnspecified())
		if badly == nil && host != "" && !local && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	switch {
	case len(hosts) == 0 && err != nil:
		return nil, term.Fail(term.ExitUsage,
			"write floating_ip.address and floating_ip.interface, start the peer, or say where with --callback-url",
			"dnsmasq-config: floating_ip.address is not written, and the hosts are not known: %w", err)
	case len(hosts) == 0:
		return nil, term.Fail(term.ExitUsage,
			"write floating_ip.address and floating_ip.interface, or say where with --callback-url",
			"dnsmasq-config: floating_ip.address is not written, and no peer's API is at an address that machines reach")
	case err != nil:
		t.Warn("the boot script names the floating IP alone, since the hosts are not known: %v; repeat it when the peer runs",
			err)
	}
	return hosts, nil
}

// dhcpServer gathers what dnsmasq is told.
func dhcpServer(ctx context.Context, t *term.Terminal, peer term.Peer, conf config.Config, f pxeFlags) (pxe.Server,
	error) {
	s := pxe.Server{Interface: conf.Firewall.Interface, Lease: f.lease, Root: f.root, Batch: f.batch,
		LoaderURLs: f.loaders}
	if conf.Firewall.Driver == "dnsmasq" {
		s.HostsDir = conf.Firewall.DHCPHostsDir
	}
	var err error
	if f.router != "" {
		if s.Router, err = netip.ParseAddr(f.router); err != nil || !s.Router.Is4() {
			return s, term.Usage("--router %s: it is an IPv4 address; IPv6 routers announce themselves", f.router)
		}
	}
	if s.Addresses, err = pxeAddresses(conf.Firewall.Interface, f.addresses); err != nil {
		return s, err
	}
	if len(f.pools) == 0 {
		cut := pxe.Cut{Parts: f.peers, Reserve: f.reserve}
		silent, err := share(ctx, peer, conf, &s, &cut, f.kept.has("peers"))
		if err != nil {
			return s, err
		}
		if len(silent) > 0 {
			t.Warn("the host of %s does not say which addresses it has where machines boot: a machine may be given one that "+
				"is in %s; repeat this when its peer answers, or leave the address out with --pool, or --reserve on every peer",
				strings.Join(silent, ", of "), strings.Join(term.Each(s.Pools, pxe.Pool.String), ", "))
		}
		fitBatch(t, &s, cut)
		return s, nil
	}
	for _, text := range f.pools {
		pool, err := pxe.ParsePool(text)
		if err != nil {
			return s, term.Usage("--pool: %w", err)
		}
		s.Pools = append(s.Pools, pool)
	}
	s.Title = fmt.Sprintf("dnsmasq for %s, by 'trivet dnsmasq-config'.\n%s", conf.Name, poolsByHand)
	fitBatch(t, &s, pxe.Cut{})
	return s, nil
}

// pxeAddresses are those of this host where machines boot: given by hand, or
// those of the interface that have a subnet.
func pxeAddresses(name string, given []string) ([]netip.Prefix, error) {
	var found []netip.Prefix
	for _, text := range given {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, term.Usage("--address: %q is no address with its subnet; write ADDRESS/BITS, as in 192.0.2.1/24", text)
		}
		found = append(found, prefix)
	}
	if len(found) > 0 {
		return found, nil
	}
	link, err := net.InterfaceByName(name)
	if err != nil {
		return nil, term.Fail(term.ExitUsage, "write firewall.interface, or say which addresses it has with --address",
			"firewall.interface: %s: %w", name, err)
	}
	if found, err = hostaddr.Lasting(link.Index); err != nil {
		return nil, fmt.Errorf("look at %s: %w", name, err)
	}
	found = slices.DeleteFunc(found, func(p netip.Prefix) bool {
		return !p.Addr().IsGlobalUnicast() || p.IsSingleIP() // a single one is the floating IP
	})
	if len(found) == 0 {
		return nil, term.Fail(term.ExitUsage, "give it an address, or say which it will have with --address",
			"firewall.interface: %s has no address with a subnet", name)
	}
	return found, nil
}

// share takes this peer's part of each subnet. Of cut.Parts that were kept there are more where more have joined.
// Silent are peers with addresses there that are not known.
func share(ctx context.Context, peer term.Peer, conf config.Config, s *pxe.Server, cut *pxe.Cut, kept bool) (
	silent []string, err error) {
	name, members, err := membersKnown(ctx, peer)
	if err != nil {
		return nil, err
	}
	names := term.Each(members, func(m admin.Member) string { return m.Name })
	slices.Sort(names)
	cut.Keep = append(cut.Keep, s.Router)
	if cut.Parts == 0 || kept {
		cut.Parts = max(cmp.Or(cut.Parts, usualPeers), len(names))
	}
	if len(names) != cut.Parts {
		return nil, term.Fail(term.ExitConflict,
			"wait until all have joined ('trivet members'), say how many there are with --peers, or give the addresses with --pool",
			"dnsmasq-config: the subnet is shared by %d peers, and %d have joined: %v", cut.Parts, len(names), names)
	}
	cut.Part = slices.Index(names, name)
	if at, err := netip.ParseAddr(conf.FloatingIP.Address); err == nil {
		cut.Keep = append(cut.Keep, at)
	}
	for _, a := range s.Addresses {
		cut.Keep = append(cut.Keep, a.Addr())
	}
	known, silent := hostsOf(ctx, peer, name, members, subnets(s.Addresses))
	cut.Keep = append(cut.Keep, known...)
	for _, subnet := range subnets(s.Addresses) {
		pools, err := cut.Share(subnet)
		if err != nil {
			return nil, term.Fail(term.ExitUsage, "give each peer addresses of its own with --pool", "dnsmasq-config: %w", err)
		}
		s.Pools = append(s.Pools, pools...)
	}
	s.Title = fmt.Sprintf(
		"dnsmasq for %s, part %d of %d of the subnet, by 'trivet dnsmasq-config'.\nThe peers share it in the order of their names: %s.\nWhen one joins or leaves, repeat it on all of them.",
		name, cut.Part+1, cut.Parts, strings.Join(names, ", "))
	return silent, nil
}

// fitBatch chooses the lease time, unless it was given, and warns where the pool
// does not hold a batch.
func fitBatch(t *term.Terminal, s *pxe.Server, cut pxe.Cut) {
	capacity := s.Capacity()
	lease, fits := pxe.LeaseFor(capacity, s.Batch)
	if s.Lease == 0 {
		s.Lease = lease
	}
	if fits || capacity == 0 {
		return
	}
	remedy := "grant more addresses with --pool"
	if cut.Parts > 0 {
		remedy = fmt.Sprintf("give machines a /%d", pxe.Fitting(s.Batch, cut.Parts))
		for _, subnet := range subnets(s.Addresses) {
			if subnet.Addr().Is6() {
				continue
			}
			if reserve := pxe.ReserveFor(subnet, s.Batch, cut.Parts); reserve > 0 {
				remedy += fmt.Sprintf(", or leave only the first %d addresses to hosts with --reserve %[1]d on every peer", reserve)
			}
		}
	}
	t.Warn(
		"the pools of this host hold %d machines at once, fewer than --batch %d: the others get no address until leases end, up to %v later; %s; or start at most %[1]d introspections at a time and say --batch %[1]d",
		capacity, s.Batch, s.Lease, remedy)
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

// membersKnown is who this peer is and who else there is.
func membersKnown(ctx context.Context, peer term.Peer) (name string, members []admin.Member, err error) {
	var s api.Status
	if err := peer.Call(ctx, "GET", "/v1/status", nil, &s); err != nil {
		return "", nil, err
	}
	err = peer.Call(ctx, "GET", term.Stale("/v1/members", true), nil, &members)
	return s.Name, members, err
}
