package doctor

import (
	"net/netip"
	"strings"
	"testing"
)

// TestARPThatIsNotAnswered goes through the values of the sysctl: the kernel
// answers for an address of a single host, of the host's scope, with some of them.
func TestARPThatIsNotAnswered(t *testing.T) {
	for address, answered := range map[string]map[int]bool{
		"192.0.2.10":   {0: true, 1: true, 2: false, 3: false, 4: true, 5: true, 6: true, 7: true, 8: false},
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
