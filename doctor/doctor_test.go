package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/doctor/dnsmasq"
)

func place(n int) dnsmasq.Place { return dnsmasq.Place{File: "/etc/dnsmasq.d/trivet.conf", Line: n} }

func pool(line int, first, last string) dnsmasq.Range {
	return dnsmasq.Range{Place: place(line), First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)}
}

// healthy is a cluster of three hosts on which all is well.
func healthy() []Facts {
	var out []Facts
	for i := 1; i <= 3; i++ {
		out = append(out, Facts{
			Peer: fmt.Sprintf("h%d", i),
			Plan: Plan{Driver: "auto", Match: "ether", Interface: "pxe", FloatingIP: "192.0.2.200", FloatingInterface: "pxe",
				APIPort: 5050, APIScheme: "http"},
			Links: []Link{
				{Name: "lo", Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}},
				{Name: "pxe", Up: true, MAC: fmt.Sprintf("52:54:00:00:00:%02x", i), Addresses: []netip.Prefix{
					netip.MustParsePrefix(fmt.Sprintf("192.0.2.%d/24", i)), netip.MustParsePrefix(fmt.Sprintf("fd00::%d/64", i)),
				}},
				{Name: "lab", Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("198.51.100.1/24")}},
			},
			DHCP: DHCP{Listening: true, Program: "dnsmasq", Unit: &Unit{Load: "loaded", Active: "active", Enabled: "enabled"},
				Conf: dnsmasq.Config{
					Files: []string{"/etc/dnsmasq.d/trivet.conf"}, Interfaces: []string{"pxe"},
					Boots:    []dnsmasq.Boot{{Place: place(12), Name: "undionly.kpxe"}},
					TFTPRoot: "/srv/tftp",
					Ranges: []dnsmasq.Range{pool(3, fmt.Sprintf("192.0.2.%d", 10*i), fmt.Sprintf("192.0.2.%d", 10*i+9)),
						pool(4, fmt.Sprintf("fd00::%d000", i), fmt.Sprintf("fd00::%dfff", i))},
				}},
			Address: Address{VRRP: true},
			Boot: Boot{
				Callback: "http://192.0.2.200:5050/v1/continue",
				Files: []File{
					{URL: "tftp://192.0.2.1/undionly.kpxe", Kind: "loader", Named: place(12).String(), Size: 70000},
					{URL: "tftp://192.0.2.1/trivet.ipxe", Kind: "script", Named: place(10).String(), Size: 700},
					{URL: "tftp://192.0.2.1/ironic-agent.kernel", Kind: "kernel", Named: "tftp://192.0.2.1/trivet.ipxe",
						Size: 8 << 20},
				},
			},
			Filter: Filter{Driver: "nftables", Listed: true, AgeMS: 9000, NftTable: true, Renewed: 600_000, Lapsed: 3,
				LeaseMS: 400},
			Health: well(i),
		})
	}
	out[1].Address.Held, out[1].Address.Present = true, []string{"pxe"}
	return out
}

func judge(t *testing.T, hosts []Facts, checks ...string) []Finding {
	t.Helper()
	findings, err := Judge(hosts, checks)
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

func TestNothingIsFoundOnAHealthyCluster(t *testing.T) {
	for _, f := range judge(t, healthy()) {
		t.Errorf("%+v", f)
	}
	if found := judge(t, nil); len(found) > 0 {
		t.Errorf("without hosts: %+v", found)
	}
}

// The address of a host that says nothing is right where a ramdisk's list has it.
func TestAListMayNameASilentHost(t *testing.T) {
	hosts := healthy()
	hosts[0].Boot.Callback = "http://192.0.2.1:5050/v1/continue,http://192.0.2.2:5050/v1/continue," +
		hosts[0].Boot.Callback
	hosts[1] = Facts{Peer: hosts[1].Peer, Error: "connection refused"}
	for _, f := range judge(t, hosts, "boot") {
		t.Errorf("list-with-a-silent-host: %+v", f)
	}
}

// fault is one that is planted alone in the healthy cluster.
type fault struct {
	name  string
	plant func(h []Facts)
	want  string // how the first finding begins: its severity, check, peer and words
	line  string // of its remedy
}

func peerFaults() []fault {
	return []fault{
		{"silent peer", func(h []Facts) {
			h[1] = Facts{Peer: "h2", Error: "connection refused"}
			broken(h, 1, 2)
			broken(h, 3, 2)
		},
			"error peers h2: it says nothing, so nothing is known of its host: connection refused", "systemctl status trivet"},
		{"no peer", func(h []Facts) { h[0].Offline = true }, "error peers h1: no peer runs on this host",
			"systemctl start trivet"},
	}
}

func filterFaults() []fault {
	return []fault{
		{"no filter", func(h []Facts) { h[0].Plan.Driver, h[0].Filter = noop, Filter{Driver: noop} },
			"error filter h1: a DHCP server listens on this host and firewall.driver is noop: it answers every machine, at the same time",
			"systemctl restart trivet"},
		{"no filter, DHCP on one host", func(h []Facts) {
			for i := range h {
				h[i].Plan.Driver, h[i].Filter, h[i].DHCP.Listening = noop, Filter{Driver: noop}, i == 1
			}
		},
			"warning filter h2: a DHCP server listens on this host and firewall.driver is noop: it answers every machine, whichever",
			"docs/migrate.md#managed-boot"},
		{"rules beside no filter", func(h []Facts) {
			h[0].DHCP.Listening, h[0].Plan.Driver, h[0].Filter = false, noop, Filter{Driver: noop, NftTable: true}
		},
			"warning filter h1: rules of driver nftables are in the kernel and firewall.driver is noop",
			"nft delete table inet trivet_pxe"},
		{"an address that is gated", func(h []Facts) {
			for i := range h {
				h[i].Plan.FloatingIP = ""
			}
			h[0].Filter.AddressTables = []string{"inet trivet_address", "arp trivet_address"}
		},
			"warning filter h1: rules that gate a floating IP are in the kernel and floating_ip is not configured",
			"nft delete table arp trivet_address"},
		{"both drivers", func(h []Facts) { h[0].Filter.IptablesChains = true },
			"warning filter h1: rules of driver iptables are in the kernel and the driver is nftables",
			"systemctl restart trivet"},
		{"a guest", func(h []Facts) { h[0].Clock.Hypervisor = "KVM" },
			"info filter h1: this host is a guest of KVM, and firewall.freeze is 0s", "firewall: {freeze: 1s}"},
		{"no interface", func(h []Facts) { h[0].Links = h[0].Links[:1] }, "error filter h1: this host has no interface pxe",
			"ip -brief link"},
		{"down", func(h []Facts) { h[0].Links[1].Up = false },
			"error filter h1: interface pxe, on which machines boot, is down", "ip link set pxe up"},
		{"a port of a bridge", func(h []Facts) { h[0].Links[1].Master = "br0" },
			"error filter h1: interface pxe, on which machines boot, is a port of br0: the PXE filter does not see what arrives there",
			"interface=br0"},
		{"wrong rules", func(h []Facts) { h[0].Filter.Problem = "no such table" },
			"error filter h1: the PXE filter is not as it should be, so no door opens here: no such table",
			"journalctl -u trivet"},
		{"drift", func(h []Facts) { h[0].Filter.Drift = 3 },
			"warning filter h1: another program changed the rules of the PXE filter, 3 times", "journalctl -u trivet"},
		{"many MACs", func(h []Facts) { h[0].Filter.Driver, h[0].Filter.MACs = "iptables", 2001 },
			"warning filter h1: 2001 MACs are on the lists, and iptables compares each packet with one after the other",
			"firewall: {driver: nftables}"},
		{"many MACs, made late", func(h []Facts) {
			h[0].Filter.Driver, h[0].Filter.MACs, h[0].Filter.IptablesChains = "auto", 2001, true
		}, "warning filter h1: 2001 MACs are on the lists", "firewall: {driver: nftables}"},
		{"lapses", func(h []Facts) { h[0].Filter.Renewed, h[0].Filter.Lapsed, h[0].Filter.LeaseMS = 27_000, 3, 400 },
			"warning filter h1: the kernel ended the lease of its PXE service 3 times before it was renewed, next to 27000 renewals",
			"firewall: {lease: 1s}"},
		{"never listed", func(h []Facts) { h[0].Filter.Listed = false },
			"error filter h1: Ironic's ports were never listed completely", "trivet status"},
		{"old list", func(h []Facts) { h[0].Filter.AgeMS, h[0].Filter.Old = 600_000, true },
			"warning filter h1: the list of Ironic's ports is 10m0s old", "trivet status"},
		{"lists that dnsmasq does not read", func(h []Facts) {
			h[0].Plan.Driver, h[0].Plan.HostsDir, h[0].DHCP.Conf.Files = "dnsmasq", "/run/trivet-hosts",
				[]string{"/etc/dnsmasq.conf"}
		}, "error filter h1: firewall.driver is dnsmasq, and dnsmasq is not configured to read /run/trivet-hosts",
			"dhcp-hostsdir=/run/trivet-hosts"},
		{"other driver", func(h []Facts) { h[2].Filter.Driver = "iptables" },
			"info filter h3: its driver is iptables, that of h1 nftables", ""},
	}
}

func poolFaults() []fault {
	return []fault{
		{"overlap", func(h []Facts) { h[2].DHCP.Conf.Ranges[0] = pool(7, "192.0.2.25", "192.0.2.39") },
			"error pools h3: its pool 192.0.2.25-192.0.2.39 (/etc/dnsmasq.d/trivet.conf:7) overlaps that of h2, 192.0.2.20-192.0.2.29 (/etc/dnsmasq.d/trivet.conf:3)",
			"trivet dnsmasq-config"},
		{"overlap of IPv6", func(h []Facts) { h[2].DHCP.Conf.Ranges[1] = pool(4, "fd00::2fff", "fd00::3fff") },
			"error pools h3: its pool fd00::2fff", "trivet dnsmasq-config"},
		{"constructed overlap", func(h []Facts) {
			h[2].DHCP.Conf.Ranges[1] = dnsmasq.Range{Place: place(4), First: netip.MustParseAddr("::2000"),
				Last: netip.MustParseAddr("::2fff"), Constructor: "pxe", Bits: 64}
		}, "error pools h3: its pool fd00::2000-fd00::2fff", ""},
		{"floating IP", func(h []Facts) { h[0].DHCP.Conf.Ranges[0] = pool(3, "192.0.2.190", "192.0.2.210") },
			"error pools h1: its pool 192.0.2.190-192.0.2.210 (/etc/dnsmasq.d/trivet.conf:3) holds 192.0.2.200, which is the floating IP",
			"end before 192.0.2.200"},
		{"own address", func(h []Facts) { h[1].DHCP.Conf.Ranges[0] = pool(3, "192.0.2.2", "192.0.2.2") },
			"error pools h2: its pool 192.0.2.2-192.0.2.2 (/etc/dnsmasq.d/trivet.conf:3) holds 192.0.2.2, which is this host's own on pxe",
			""},
		{"another host's address", func(h []Facts) {
			h[1].Links[1].Addresses = append(h[1].Links[1].Addresses, netip.MustParsePrefix("192.0.2.15/24"))
		},
			"error pools h1: its pool 192.0.2.10-192.0.2.19 (/etc/dnsmasq.d/trivet.conf:3) holds 192.0.2.15, which is that of h2 on pxe",
			"end before 192.0.2.15"},
		{"across the subnet", func(h []Facts) { h[0].DHCP.Conf.Ranges[0] = pool(3, "192.0.2.250", "192.0.3.9") },
			"error pools h1: its pool 192.0.2.250-192.0.3.9 (/etc/dnsmasq.d/trivet.conf:3) leaves the subnet 192.0.2.0/24 of pxe",
			"within 192.0.2.0/24"},
		{"no subnet", func(h []Facts) { h[0].DHCP.Conf.Ranges[0] = pool(3, "203.0.113.1", "203.0.113.9") },
			"warning pools h1: its pool 203.0.113.1-203.0.113.9 (/etc/dnsmasq.d/trivet.conf:3) is in no subnet",
			"correct /etc/dnsmasq.d/trivet.conf:3"},
		{"twice", func(h []Facts) {
			h[0].DHCP.Conf.Ranges = append(h[0].DHCP.Conf.Ranges, pool(5, "192.0.2.15", "192.0.2.18"))
		},
			"warning pools h1: its pools 192.0.2.10-192.0.2.19 (/etc/dnsmasq.d/trivet.conf:3) and 192.0.2.15-192.0.2.18 (/etc/dnsmasq.d/trivet.conf:5) overlap",
			"remove one"},
		{"not read", func(h []Facts) { h[0].Gaps = []Gap{{"pools", "permission denied"}} },
			"info pools h1: not looked at: permission denied", ""},
	}
}

func rawFaults() []fault {
	return []fault{
		{"a peer's raw server", func(h []Facts) {
			h[0].DHCP.Answers = []Server{{"192.0.2.3", "52:54:00:00:00:03"}}
			h[1].DHCP.Answers = h[0].DHCP.Answers
		},
			"error raw-dhcp h3: its DHCP server 192.0.2.3 (52:54:00:00:00:03) answers a machine that every host denies, so it reads raw sockets, past the PXE filter; seen by h1, h2",
			`"dhcp-socket-type": "udp"`},
		{"a stranger's server", func(h []Facts) { h[1].DHCP.Answers = []Server{{"192.0.2.77", "52:54:00:00:00:77"}} },
			"error raw-dhcp h2: DHCP server 192.0.2.77 (52:54:00:00:00:77), which is not one of the peers' hosts",
			"find that machine"},
		{"no test", func(h []Facts) { h[0].DHCP.SelfTest = "no such interface" },
			"warning raw-dhcp h1: whether the other hosts' filters stop", "trivet firewall show"},
	}
}

func addressFaults() []fault {
	return []fault{
		{"an operator put it there", func(h []Facts) { h[0].Address.Present = []string{"pxe"} },
			"error floating-ip h1: this host has the floating IP 192.0.2.200 on pxe, and its peer does not hold it: VRRP is spoken",
			"ip addr del 192.0.2.200/32 dev pxe"},
		{"another machine", func(h []Facts) { h[1].Address.Conflict = "52:54:00:00:00:99" },
			"error floating-ip h2: 52:54:00:00:00:99 answers for the floating IP", "ip neigh show"},
		{"no interface", func(h []Facts) { h[0].Plan.FloatingInterface = "eth9" },
			"error floating-ip h1: floating_ip.interface: this host has no interface eth9: it cannot take the floating IP 192.0.2.200",
			"ip -brief link"},
		{"an interface that is down", func(h []Facts) { h[0].Links[2].Up, h[0].Plan.FloatingInterface = false, "lab" },
			"error floating-ip h1: floating_ip.interface: lab is down: this host cannot take the floating IP 192.0.2.200",
			"ip link set lab up"},
		{"an ARP that is not answered",
			func(h []Facts) { h[0].Links[1].ARPIgnore, h[0].Plan.FloatingInterface = 8, h[0].Links[1].Name },
			"error floating-ip h1: arp_ignore is 8 on pxe: this host would not answer for the floating IP 192.0.2.200",
			"sysctl net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.pxe.arp_ignore=1"},
		{"the host's own address", func(h []Facts) {
			h[0].Links[1].Addresses = append(h[0].Links[1].Addresses, netip.MustParsePrefix("192.0.2.200/24"))
			h[0].Address.Present = []string{"pxe"}
		}, "error floating-ip h1: floating_ip.address: 192.0.2.200 is this host's own address on pxe (192.0.2.200/24)",
			"ip addr del 192.0.2.200/24 dev pxe"},
		{"outside the subnets", func(h []Facts) { h[0].Plan.FloatingInterface = "lab" },
			"warning floating-ip h1: floating_ip.address: 192.0.2.200 is in no subnet of lab (198.51.100.0/24)",
			"ip -brief address show lab"},
		{"another address", func(h []Facts) { h[2].Plan.FloatingIP, h[2].Boot.Callback = "192.0.2.201", "" },
			`error floating-ip h3: its floating_ip.address is "192.0.2.201", that of h1 "192.0.2.200"`, ""},
	}
}

func bootFaults() []fault {
	return []fault{
		{"no loader", func(h []Facts) { h[0].Boot.Files[0].Error = "file not found" },
			"warning boot h1: loader tftp://192.0.2.1/undionly.kpxe cannot be fetched: file not found (named in /etc/dnsmasq.d/trivet.conf:12)",
			"install -m 644 undionly.kpxe /srv/tftp/undionly.kpxe"},
		{"no script", func(h []Facts) { h[0].Boot.Files[1].Error = "file not found" },
			"error boot h1: script tftp://192.0.2.1/trivet.ipxe", "trivet dnsmasq-config --boot-script > /srv/tftp/trivet.ipxe"},
		{"no kernel", func(h []Facts) { h[0].Boot.Files[2].Error = "file not found" },
			"error boot h1: kernel tftp://192.0.2.1/ironic-agent.kernel",
			"install -m 644 ironic-agent.kernel /srv/tftp/ironic-agent.kernel"},
		{"empty", func(h []Facts) { h[0].Boot.Files[2].Size = 0 },
			"error boot h1: kernel tftp://192.0.2.1/ironic-agent.kernel is empty", ""},
		{"kernel by HTTP", func(h []Facts) {
			h[0].Boot.Files[2] = File{URL: "http://192.0.2.5/k", Kind: "kernel", Error: "the server answers 404 Not Found"}
		}, "error boot h1: kernel http://192.0.2.5/k cannot be fetched", "# make that URL answer"},
		{"callback to a host", func(h []Facts) { h[0].Boot.Callback = "http://192.0.2.2:5050/v1/continue" },
			"warning boot h1: the ramdisk reports to http://192.0.2.2:5050/v1/continue: that is an address of h2, which dies with it",
			"--boot-script"},
		{"callback elsewhere", func(h []Facts) { h[0].Boot.Callback = "http://boot.example:5050/v1/continue" },
			"warning boot h1: the ramdisk reports to http://boot.example:5050/v1/continue: that is not the floating IP", ""},
		{"callback to another port", func(h []Facts) { h[0].Boot.Callback = "http://192.0.2.200/v1/continue" },
			"warning boot h1: the ramdisk reports to http://192.0.2.200/v1/continue: the API listens on port 5050", ""},
		{"a list with a stranger", func(h []Facts) { h[0].Boot.Callback += ",http://198.51.100.7:5050/v1/continue" },
			"warning boot h1: the ramdisk reports to http://198.51.100.7:5050/v1/continue: that is not the floating IP", ""},
		{"a list with another port", func(h []Facts) { h[0].Boot.Callback += ",http://192.0.2.2:5051/v1/continue" },
			"warning boot h1: the ramdisk reports to http://192.0.2.2:5051/v1/continue: the API listens on port 5050", ""},
		{"a list in the clear", func(h []Facts) {
			h[0].Boot.Callback = "https://192.0.2.200:5050/v1/continue,http://192.0.2.2:5050/v1/continue"
		}, "warning boot h1: the ramdisk reports to https://192.0.2.200:5050/v1/continue: the API speaks http", ""},
		{"one host without a floating IP", func(h []Facts) {
			for i := range h {
				h[i].Plan.FloatingIP, h[i].Plan.FloatingInterface, h[i].Boot.Callback = "", "", ""
			}
			h[0].Boot.Callback = "http://192.0.2.2:5050/v1/continue"
		}, "warning boot h1: the ramdisk reports to http://192.0.2.2:5050/v1/continue: that is an address of h2, which dies",
			"--boot-script"},
		{"callback in the clear", func(h []Facts) { h[0].Plan.APIScheme = "https" },
			"warning boot h1: the ramdisk reports to http://192.0.2.200:5050/v1/continue: the API speaks https", ""},
	}
}

func TestEveryFaultIsFound(t *testing.T) {
	for _, c := range slices.Concat(peerFaults(), filterFaults(), dhcpFaults(), poolFaults(), rawFaults(),
		addressFaults(), bootFaults(),
		routeFaults(), diskFaults(), hostFaults(), serviceFaults()) {
		hosts := healthy()
		c.plant(hosts)
		findings := judge(t, hosts)
		if len(findings) == 0 {
			t.Errorf("%s: nothing was found", c.name)
			continue
		}
		f := findings[0]
		if got := fmt.Sprintf("%s %s %s: %s", f.Severity, f.Check, f.Peer, f.Text); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s…", c.name, got, c.want)
		}
		if !strings.Contains(strings.Join(f.Remedy, "\n"), c.line) {
			t.Errorf("%s: the remedy lacks %q:\n%s", c.name, c.line, strings.Join(f.Remedy, "\n"))
		}
		for _, more := range findings[1:] {
			if more.Severity != Info { // h1 being different, the others differ from it
				t.Errorf("%s: one fault is found twice: %+v", c.name, more)
			}
		}
		if alone := judge(t, hosts, f.Check); len(alone) == 0 || alone[0].Text != f.Text {
			t.Errorf("%s: check %s alone finds %+v", c.name, f.Check, alone)
		}
	}
}

// A server on a bridge over the filter's interface reads no raw socket: the filter
// is in the wrong place, which is said once.
func TestServerOnABridge(t *testing.T) {
	hosts := healthy()
	hosts[2].Links[1].Master = "br0"
	hosts[0].DHCP.Answers = []Server{{"192.0.2.3", "52:54:00:00:00:03"}}
	const want = "its DHCP server 192.0.2.3 (52:54:00:00:00:03) answers a machine that every host denies: its PXE filter is on pxe, which is a port of br0; seen by h1"
	if alone := judge(t, hosts, "raw-dhcp"); len(alone) != 1 || alone[0].Peer != "h3" || alone[0].Text != want {
		t.Errorf("cause-of-a-bypass: %+v, want of h3: %s", alone, want)
	}
	if all := judge(t, hosts); len(all) != 1 || all[0].Check != "filter" {
		t.Errorf("cause-of-a-bypass: all checks find %+v", all)
	}
}

// What looks like a fault and is none.
func TestWhatIsRight(t *testing.T) {
	for name, plant := range map[string]func(h []Facts){
		"another network of the host": func(h []Facts) {
			for i := range h {
				h[i].DHCP.Conf.Ranges = append(h[i].DHCP.Conf.Ranges, pool(8, "198.51.100.10", "198.51.100.20"))
			}
		},
		"a static range": func(h []Facts) {
			h[0].DHCP.Conf.Ranges = append(h[0].DHCP.Conf.Ranges,
				dnsmasq.Range{First: netip.MustParseAddr("192.0.2.0"), Last: netip.MustParseAddr("192.0.2.0"),
					Modes: []string{"static"}})
		},
		"one line for each tag": func(h []Facts) {
			h[0].DHCP.Conf.Ranges = append(h[0].DHCP.Conf.Ranges, pool(9, "192.0.2.10", "192.0.2.19"))
		},
		"a pool for a relay": func(h []Facts) {
			r := pool(9, "203.0.113.10", "203.0.113.20")
			r.Bits = 24
			h[0].DHCP.Conf.Ranges = append(h[0].DHCP.Conf.Ranges, r)
		},
		"a name for the floating IP": func(h []Facts) {
			h[0].Boot.Callback, h[0].Boot.Hosts = "http://inspector.example:5050/v1/continue", []string{"192.0.2.200"}
		},
		"no DHCP and no filter": func(h []Facts) {
			h[0].DHCP.Listening, h[0].Plan.Driver, h[0].Filter = false, noop, Filter{Driver: noop}
		},
		"lists that dnsmasq reads": func(h []Facts) {
			h[0].Plan.Driver, h[0].Plan.HostsDir = "dnsmasq", "/run/trivet-hosts/"
			h[0].DHCP.Conf.Files, h[0].DHCP.Conf.HostsDirs = []string{"/etc/dnsmasq.conf"}, []string{"/run/trivet-hosts"}
		},
		"the floating IP as Trivet puts it there": func(h []Facts) {
			h[1].Links[1].Addresses = append(h[1].Links[1].Addresses, netip.MustParsePrefix("192.0.2.200/32"))
		},
		"no floating IP": func(h []Facts) {
			for i := range h {
				h[i].Plan.FloatingIP, h[i].Plan.FloatingInterface, h[i].Boot.Callback = "", "", ""
			}
			h[1].Address.Held, h[1].Address.Present = false, nil
		},
		"keepalived offline": func(h []Facts) { h[0].Address.VRRP = false },
		"the lease of driver iptables": func(h []Facts) {
			for i := range h {
				h[i].Filter.Driver, h[i].Filter.IptablesChains = "iptables", true
			}
		},
	} {
		hosts := healthy()
		plant(hosts)
		for _, f := range judge(t, hosts) {
			if f.Severity != Info {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

func TestTheWorstComesFirst(t *testing.T) {
	hosts := healthy()
	hosts[0].Filter.Drift = 1
	hosts[0].Filter.Driver = "iptables"
	hosts[1].Address.Conflict = "52:54:00:00:00:99"
	var got []Severity
	for _, f := range judge(t, hosts) {
		got = append(got, f.Severity)
	}
	if !slices.Equal(got, []Severity{Error, Warning, Info}) {
		t.Errorf("%v", got)
	}
	if _, err := Judge(hosts, []string{"pool"}); err == nil ||
		!strings.Contains(err.Error(), "peers, config, filter, dhcp, pools") {
		t.Errorf("an unknown check: %v", err)
	}
}

func TestReadScript(t *testing.T) {
	s := ReadScript(
		[]byte(
			"#!ipxe\n# a comment\nset tries:int32 0\nkernel --timeout 30000 ironic-agent.kernel initrd=ramdisk ipa-inspection-callback-url=http://192.0.2.200:5050/v1/continue BOOTIF=${mac} || goto failed\n" +
				"initrd --timeout 30000 --name ramdisk http://images.example/a.initramfs || goto failed\nboot || goto failed\nkernel\ninitrd --name\n"))
	if !slices.Equal(s.Kernels, []string{"ironic-agent.kernel"}) ||
		!slices.Equal(s.Ramdisks, []string{"http://images.example/a.initramfs"}) ||
		s.Callback != "http://192.0.2.200:5050/v1/continue" {
		t.Errorf("%+v", s)
	}
	for name, want := range map[string]string{
		"k": "tftp://192.0.2.1/k", "/k": "tftp://192.0.2.1/k", "http://a/k": "http://a/k", "${next-server}/k": "",
	} {
		if got, ok := Resolve("tftp://192.0.2.1/trivet.ipxe", name); got != want || ok != (want != "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// What is found on several hosts alike is one finding that lists them.
func TestSameFindingOfSeveralHosts(t *testing.T) {
	hosts := healthy()
	for i := range hosts {
		hosts[i].Services[0].Error = "connection refused"
	}
	hosts[0].Filter.Drift, hosts[2].Filter.Drift = 3, 3
	hosts[1].Filter.Drift = 4
	var got []string
	for _, f := range judge(t, hosts) {
		got = append(got, fmt.Sprintf("%s %s %v", f.Severity, f.Check, f.Hosts()))
	}
	want := []string{"error services [h1 h2 h3]", "warning filter [h1 h3]", "warning filter [h2]"}
	if !slices.Equal(got, want) {
		t.Errorf("same-finding-of-several-hosts: %q, want %q", got, want)
	}
}

// A check that is made alone reports a fault that another check would report
// first.
func TestOneFaultTwoChecks(t *testing.T) {
	hosts := healthy()
	hosts[0].Links[1].Up = false
	for _, checks := range [][]string{nil, {"filter"}, {"floating-ip"}} {
		findings := judge(t, hosts, checks...)
		if len(findings) != 1 || findings[0].Severity != Error || len(checks) > 0 && findings[0].Check != checks[0] {
			t.Errorf("checks %v: %+v", checks, findings)
		}
	}
}

// TestGuestsThatAreAllowedFor: with firewall.freeze, and where nothing is held open,
// there is nothing to say about a hypervisor.
func TestGuestsThatAreAllowedFor(t *testing.T) {
	for name, plant := range map[string]func(p *Plan){
		"freeze":  func(p *Plan) { p.FreezeMS = 1000 },
		"nothing": func(p *Plan) { p.Driver, p.FloatingIP = noop, "" },
	} {
		hosts := healthy()
		for i := range hosts {
			hosts[i].Clock.Hypervisor = "KVM"
			plant(&hosts[i].Plan)
		}
		for _, f := range judge(t, hosts, "filter") {
			if strings.Contains(f.Text, "guest") {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}
