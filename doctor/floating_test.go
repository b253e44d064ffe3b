package doctor

import (
	"net/netip"
	"strings"
	"testing"
)

// TestARPThatIsNotAnswered goes through the values of the sysctl: the kernel
// answers for an address of a single host with some of them.
func TestARPThatIsNotAnswered(t *testing.T) {
	for address, answered := range map[string]map[int]bool{
		"192.0.2.10":   {0: true, 1: true, 2: false, 3: true, 4: true, 5: true, 6: true, 7: true, 8: false},
		"2001:db8::10": {0: true, 2: true, 3: true, 8: true},
	} {
		subnets := []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8::1/64")}
		for value, want := range answered {
			found := FloatingProblems(Plan{FloatingIP: address, FloatingInterface: "eth0.5"},
				[]Link{{Name: "eth0.5", Up: true, ARPIgnore: value, Addresses: subnets}})
			if got := len(found) == 0; got != want {
				t.Errorf("arp_ignore %d for %s: %+v", value, address, found)
			} else if !want && !strings.Contains(found[0].Remedy[0], "net.ipv4.conf.eth0/5.arp_ignore=1") {
				t.Errorf("arp_ignore %d: the remedy is %q", value, found[0].Remedy)
			}
		}
	}
	alone := Link{Name: "eth0", Up: true, ARPIgnore: 3, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.10/32"),
		netip.MustParsePrefix("2001:db8::1/64")}}
	found := FloatingProblems(Plan{FloatingIP: "192.0.2.10", FloatingInterface: "eth0"}, []Link{alone})
	if len(found) == 0 || !strings.Contains(found[0].Text, "arp_ignore is 3") {
		t.Errorf("arp-ignore-alone: where the link has no other address: %+v", found)
	}
}

// TestAddressOfNoHost: the first and the last address of a subnet belong to no host, by the
// length of its prefix, not by how the address looks.
func TestAddressOfNoHost(t *testing.T) {
	for _, test := range []struct{ address, on, want string }{
		{"192.0.2.0", "192.0.2.1/24", "the address of the network 192.0.2.0/24"},
		{"192.0.2.255", "192.0.2.1/24", "the broadcast address of 192.0.2.0/24"},
		{"192.0.2.127", "192.0.2.1/25", "the broadcast address of 192.0.2.0/25"},
		{"192.0.2.128", "192.0.2.129/25", "the address of the network 192.0.2.128/25"},
		{"192.0.2.3", "192.0.2.1/30", "the broadcast address of 192.0.2.0/30"},
		{"2001:db8::", "2001:db8::1/64", "the anycast address of the routers of 2001:db8::/64"},
		{"192.0.2.0", "192.0.1.7/22", ""}, {"192.0.2.255", "192.0.2.1/23", ""}, {"192.0.2.1", "192.0.2.0/31", ""},
		{"192.0.2.10", "192.0.2.1/24", ""},
		{"2001:db8::ffff:ffff:ffff:ffff", "2001:db8::1/64", ""}, {"198.51.100.255", "192.0.2.1/24", ""},
		{"192.0.2.255", "192.0.2.255/32", ""},
	} {
		l := Link{Name: "eth0", Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix(test.on)}}
		if got := l.Reserved(netip.MustParseAddr(test.address)); got != test.want {
			t.Errorf("%s on %s: %q, want %q", test.address, test.on, got, test.want)
		}
		var said []string
		for _, f := range FloatingProblems(Plan{FloatingIP: test.address, FloatingInterface: "eth0"}, []Link{l}) {
			if strings.Contains(f.Text, "do not send packets to it as to a host") {
				said = append(said, f.Text)
			}
		}
		if (len(said) == 1) != (test.want != "") {
			t.Errorf("%s on %s: %q", test.address, test.on, said)
		}
	}
}

// TestFloatingIPOnAPort: the master takes the frames of a port, and the finding names what to write instead. An
// interface in a VRF has its subnet itself, and hears its frames.
func TestFloatingIPOnAPort(t *testing.T) {
	subnet := []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}
	for name, c := range map[string]struct {
		links []Link // the first is floating_ip.interface
		want  string // first words of the one finding, "": none
		write string // in its remedy
	}{
		"bridge": {[]Link{{Name: "eth1", Up: true, Master: "br0"}, {Name: "br0", Up: true, Addresses: subnet}},
			"error: floating_ip.interface: eth1 is a port of br0, which takes its frames", "write br0 as"},
		"bond in a bridge": {[]Link{{Name: "eth1", Up: true, Master: "bond0"}, {Name: "bond0", Up: true, Master: "br0"},
			{Name: "br0", Up: true, Addresses: subnet}},
			"error: floating_ip.interface: eth1 is a port of bond0, which takes its frames", "write br0 as"},
		"both have the subnet": {[]Link{{Name: "eth1", Up: true, Master: "br0", Addresses: subnet},
			{Name: "br0", Up: true, Addresses: subnet}}, "error: floating_ip.interface: eth1 is a port of br0", "write br0 as"},
		"Open vSwitch": {[]Link{{Name: "eth1", Up: true, Master: "ovs-system"}, {Name: "ovs-system"}},
			"error: floating_ip.interface: eth1 is a port of ovs-system", "write the internal port"},
		"elsewhere": {[]Link{{Name: "eth1", Up: true, Master: "br0"}, {Name: "br0", Up: true}},
			"warning: floating_ip.address: 192.0.2.10 is in no subnet of eth1 (none of its family; it is a port of br0)", ""},
		"VRF":        {[]Link{{Name: "eth1", Up: true, Master: "red", Addresses: subnet}, {Name: "red", Up: true}}, "", ""},
		"the bridge": {[]Link{{Name: "br0", Up: true, Addresses: subnet}, {Name: "eth1", Up: true, Master: "br0"}}, "", ""},
	} {
		found := FloatingProblems(Plan{FloatingIP: "192.0.2.10", FloatingInterface: c.links[0].Name}, c.links)
		said := ""
		for _, f := range found {
			said += string(f.Severity) + ": " + f.Text + " " + f.Advice()
		}
		if len(found) > 1 || (said == "") != (c.want == "") || !strings.HasPrefix(said, c.want) ||
			!strings.Contains(said, c.write) {
			t.Errorf("floating-ip-on-a-port: %s: %q, want %q", name, said, c.want)
		}
	}
}

// TestServiceAtTheFloatingIP: what does not answer there is an error on each host that asked,
// and so are two ports, between which the address moves.
func TestServiceAtTheFloatingIP(t *testing.T) {
	host := func(name string, port uint16, served ...Served) Facts {
		return Facts{Peer: name, Plan: Plan{FloatingIP: "192.0.2.10", FloatingInterface: "eth0", APIPort: port},
			Links:   []Link{{Name: "eth0", Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}}},
			Address: Address{Served: served}}
	}
	good := Served{What: "the API", URL: "http://192.0.2.10:5050/livez"}
	bad := Served{What: "the API", URL: good.URL, Error: "connection refused"}
	judged := func(hosts ...Facts) string {
		out, err := Judge(hosts, []string{"floating-ip"})
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, f := range out {
			text = append(text, strings.Join(f.Hosts(), "+")+": "+string(f.Severity)+": "+f.Text)
		}
		return strings.Join(text, "; ")
	}
	if said := judged(host("h1", 5050, good), host("h2", 5050, good)); said != "" {
		t.Error(said)
	}
	if said := judged(host("h1", 5050, bad), host("h2", 5050, good), host("h3", 5050, bad)); said !=
		"h1+h3: error: the API does not answer at the floating IP 192.0.2.10: connection refused" {
		t.Error(said)
	}
	if said := judged(host("h1", 5050), host("h2", 5051)); said !=
		"h2: error: its API has port 5051, that of h1 5050: at the floating IP the port changes with the leader" {
		t.Error(said)
	}
}

// TestUselessOptionsAreFound: a pair of a host's configuration is found there, also while
// another host leads and all is well.
func TestUselessOptionsAreFound(t *testing.T) {
	h2 := Facts{Peer: "h2", Plan: Plan{Useless: []Useless{{What: "trivet.yaml:3: api.listen: …", Do: `write ":5050"`}}}}
	out, err := Judge([]Facts{{Peer: "h1"}, h2}, []string{"config"})
	if err != nil || len(out) != 1 || out[0].Peer != "h2" || out[0].Severity != Error ||
		out[0].Text != "trivet.yaml:3: api.listen: …" || !strings.Contains(out[0].Remedy[0], `write ":5050"`) {
		t.Error(out, err)
	}
}
