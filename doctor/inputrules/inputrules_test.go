package inputrules

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func recorded(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func all(string, string) bool { return false }

func nft(t *testing.T, text string) []Table {
	t.Helper()
	tables, err := ParseNft([]byte(text), all)
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

func save(t *testing.T, family, text string) []Table {
	t.Helper()
	tables, err := ParseSave(family, []byte(text), "TRIVET")
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

func dhcp(port uint16) Packet {
	return Packet{Interface: "pxe", Protocol: "udp", Port: port, Cast: "broadcast"}
}

func tcp(iface string, port uint16) Packet {
	return Packet{Interface: iface, Protocol: "tcp", Port: port, Cast: "unicast"}
}

// blockedPorts are those of a list that are surely kept out.
func blockedPorts(tables []Table, packets ...Packet) (out []uint16) {
	for _, p := range packets {
		if _, ok := Blocked(tables, p); ok {
			out = append(out, p.Port)
		}
	}
	return out
}

func TestFirewalldWithItsDefaults(t *testing.T) {
	tables := nft(t, string(recorded(t, "firewalld.json")))
	v, ok := Blocked(tables, dhcp(67))
	if !ok || v.Table != "firewalld" || v.Tool != "nft" {
		t.Fatalf("%+v, %v", v, ok)
	}
	if !slices.Contains(v.Trail, "filter_IN_public") {
		t.Errorf("the zone is not in %v", v.Trail)
	}
	if got := blockedPorts(tables, tcp("pxe", 22), tcp("site", 5050), tcp("site", 7350)); !slices.Equal(got,
		[]uint16{5050, 7350}) {
		t.Errorf("blocked: %v", got)
	}
	local := tcp("lo", 7350)
	if v, ok := Blocked(tables, local); ok {
		t.Errorf("the host itself is kept out: %+v", v)
	}
}

func TestFirewalldWithThePortsOpen(t *testing.T) {
	tables := nft(t, string(recorded(t, "firewalld-open.json")))
	six := Packet{Interface: "pxe", Protocol: "udp", Port: 547, Six: true, Cast: "multicast"}
	if got := blockedPorts(tables, dhcp(67), dhcp(69), six, tcp("pxe", 5050), tcp("pxe", 7350), dhcp(7351),
		tcp("pxe", 7351)); got != nil {
		t.Errorf("blocked: %v", got)
	}
	// The ports are open in the zone of pxe alone.
	if v, ok := Blocked(tables, tcp("site", 7350)); !ok || !slices.Contains(v.Trail, "filter_IN_public") {
		t.Errorf("%+v, %v", v, ok)
	}
	if v, ok := Blocked(tables, dhcp(4011)); !ok || !slices.Contains(v.Trail, "filter_IN_internal") {
		t.Errorf("%+v, %v", v, ok)
	}
}

func TestUFW(t *testing.T) {
	tables := save(t, "ip", string(recorded(t, "ufw.v4")))
	v, ok := Blocked(tables, dhcp(67))
	if !ok || v.Tool != "iptables" || v.Chain != "ufw-skip-to-policy-input" ||
		!slices.Contains(v.Trail, "ufw-user-input") {
		t.Errorf("%+v, %v", v, ok)
	}
	if got := blockedPorts(tables, tcp("pxe", 22), tcp("pxe", 5050)); !slices.Equal(got, []uint16{5050}) {
		t.Errorf("blocked: %v", got)
	}
	open := save(t, "ip", string(recorded(t, "ufw-open.v4")))
	if got := blockedPorts(open, dhcp(67), dhcp(69), tcp("site", 7350), tcp("pxe", 7350)); !slices.Equal(got,
		[]uint16{7350}) {
		t.Errorf("blocked: %v", got)
	}
	six := save(t, "ip6", string(recorded(t, "ufw.v6")))
	ask := Packet{Interface: "pxe", Protocol: "udp", Port: 547, Six: true, Cast: "multicast"}
	if _, ok := Blocked(six, ask); !ok {
		t.Error("ufw lets port 547 in")
	}
	if _, ok := Blocked(six, dhcp(67)); ok {
		t.Error("IPv4 is judged by rules for IPv6")
	}
}

func TestSaveRules(t *testing.T) {
	peer := netip.MustParseAddr("10.0.0.2")
	from := tcp("site", 7350)
	from.Source = peer
	for _, c := range []struct {
		name    string
		policy  string
		rules   []string
		packet  Packet
		blocked bool
	}{
		{"policy", "DROP", nil, dhcp(67), true},
		{"no rules", "ACCEPT", nil, dhcp(67), false},
		{"last drop", "ACCEPT", []string{"-A INPUT -i lo -j ACCEPT", "-A INPUT -j DROP"}, dhcp(67), true},
		{"last reject", "ACCEPT", []string{"-A INPUT -j REJECT --reject-with icmp-port-unreachable"}, dhcp(67), true},
		{"port", "DROP", []string{"-A INPUT -i pxe -p udp -m udp --dport 67 -j ACCEPT"}, dhcp(67), false},
		{"range", "DROP", []string{"-A INPUT -p udp -m udp --dport 67:69 -j ACCEPT"}, dhcp(69), false},
		{"multiport", "DROP", []string{"-A INPUT -p udp -m multiport --dports 53,67 -j ACCEPT"}, dhcp(67), false},
		{"other port", "DROP", []string{"-A INPUT -p udp -m udp --dport 68 -j ACCEPT"}, dhcp(67), true},
		{"other protocol", "DROP", []string{"-A INPUT -p tcp -m tcp --dport 67 -j ACCEPT"}, dhcp(67), true},
		{"other interface", "DROP", []string{"-A INPUT -i eth+ -j ACCEPT"}, dhcp(67), true},
		{"wildcard", "DROP", []string{"-A INPUT -i px+ -j ACCEPT"}, dhcp(67), false},
		{"negated interface", "ACCEPT", []string{"-A INPUT ! -i eth0 -j DROP"}, dhcp(67), true},
		{"source not known", "DROP", []string{"-A INPUT -s 10.0.0.0/8 -j ACCEPT"}, tcp("site", 7350), false},
		{"source fits", "DROP", []string{"-A INPUT -s 10.0.0.0/255.0.0.0 -j ACCEPT"}, from, false},
		{"source does not", "DROP", []string{"-A INPUT -s 192.168.0.0/16 -j ACCEPT"}, from, true},
		{"drop of some sources", "ACCEPT", []string{"-A INPUT -s 10.0.0.9/32 -j DROP"}, tcp("site", 7350), false},
		{"an unknown match", "DROP", []string{"-A INPUT -m set --match-set friends src -j ACCEPT"}, tcp("site", 7350), false},
		{"an unknown target", "DROP", []string{"-A INPUT -j NFQUEUE --queue-num 1"}, dhcp(67), false},
		{"log", "DROP", []string{"-A INPUT -j LOG --log-prefix \"a -j ACCEPT \""}, dhcp(67), true},
		{"established", "DROP", []string{"-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"}, dhcp(67), true},
		{"new", "DROP", []string{"-A INPUT -m state --state NEW -j ACCEPT"}, dhcp(67), false},
		{"our own chain", "ACCEPT", []string{"-A INPUT -j TRIVET-PXE"}, dhcp(67), false},
		{"jump and back", "DROP", []string{"-A INPUT -j more", "-A more -i eth0 -j ACCEPT"}, dhcp(67), true},
		{"goto", "ACCEPT", []string{"-A INPUT -g more", "-A INPUT -j DROP", "-A more -i eth0 -j DROP"}, dhcp(67), false},
		{"perhaps a return", "ACCEPT", []string{"-A INPUT -j more", "-A more -s 10.0.0.1/32 -j RETURN", "-A more -j DROP"},
			dhcp(67), false},
	} {
		text := "*filter\n:INPUT " + c.policy + " [0:0]\n:more - [0:0]\n:TRIVET-PXE - [0:0]\n" + strings.Join(c.rules, "\n") +
			"\n-A TRIVET-PXE -j DROP\nCOMMIT\n"
		if v, ok := Blocked(save(t, "ip", text), c.packet); ok != c.blocked {
			t.Errorf("%s: %v by %+v, want %v", c.name, ok, v, c.blocked)
		}
	}
}

func TestNftRules(t *testing.T) {
	const chain = `{"chain":{"family":"inet","table":"filter","name":"input","type":"filter","hook":"input","prio":0,"policy":"POLICY"}}`
	rule := func(expr string) string {
		return `{"rule":{"family":"inet","table":"filter","chain":"input","handle":7,"expr":[` + expr + `]}}`
	}
	const accept, drop = `{"accept":null}`, `{"drop":null}`
	match := func(left, right string) string {
		return `{"match":{"op":"==","left":` + left + `,"right":` + right + `}},`
	}
	udp := `{"payload":{"protocol":"udp","field":"dport"}}`
	for _, c := range []struct {
		name, policy, expr string
		blocked            bool
	}{
		{"policy", "drop", "", true},
		{"no policy", "accept", "", false},
		{"port", "drop", match(udp, "67") + accept, false},
		{"set", "drop", match(udp, `{"set":[53,67]}`) + accept, false},
		{"range", "drop", match(udp, `{"set":[{"range":[60,70]}]}`) + accept, false},
		{"other port", "drop", match(udp, "68") + accept, true},
		{"named set", "drop", match(udp, `"@open"`) + accept, false},
		{"th", "drop", match(`{"payload":{"protocol":"th","field":"dport"}}`, "67") + accept, false},
		{"interface", "drop", match(`{"meta":{"key":"iifname"}}`, `"px*"`) + accept, false},
		{"other interface", "drop", match(`{"meta":{"key":"iif"}}`, `"lo"`) + accept, true},
		{"established", "drop", `{"match":{"op":"in","left":{"ct":{"key":"state"}},"right":["established","related"]}},` +
			accept, true},
		{"map", "drop",
			`{"vmap":{"key":{"ct":{"key":"state"}},"data":{"set":[["established",{"accept":null}],["invalid",{"drop":null}]]}}}`,
			true},
		{"map of ports", "drop", `{"vmap":{"key":` + udp + `,"data":{"set":[[67,{"accept":null}]]}}}`, false},
		{"map elsewhere", "drop", `{"vmap":{"key":` + udp + `,"data":"@ports"}}`, false},
		{"counter and limit", "drop", `{"limit":{"rate":1}},{"counter":{"packets":0,"bytes":0}},` + accept, false},
		{"drop with a counter", "accept", `{"counter":{"packets":0,"bytes":0}},` + drop, true},
		{"reject", "accept", `{"reject":{"type":"icmpx","expr":"admin-prohibited"}}`, true},
		{"sources", "accept", match(`{"payload":{"protocol":"ip","field":"saddr"}}`,
			`{"prefix":{"addr":"10.0.0.0","len":8}}`) + drop, false},
		{"every source", "accept",
			match(`{"payload":{"protocol":"ip","field":"saddr"}}`, `{"prefix":{"addr":"0.0.0.0","len":0}}`) + drop, true},
		{"unknown statement", "drop", `{"synproxy":null}`, false},
		{"not a port", "accept", `{"match":{"op":"!=","left":` + udp + `,"right":53}},` + drop, true},
	} {
		objects := []string{strings.Replace(chain, "POLICY", c.policy, 1)}
		if c.expr != "" {
			objects = append(objects, rule(c.expr))
		}
		tables := nft(t, `{"nftables":[{"metainfo":{}},`+strings.Join(objects, ",")+`]}`)
		v, ok := Blocked(tables, dhcp(67))
		if ok != c.blocked {
			t.Errorf("%s: %v by %+v, want %v", c.name, ok, v, c.blocked)
		}
		if c.name == "not a port" && v.Rule != "rule 7 of 'nft -a list chain inet filter input'" {
			t.Errorf("%s: the rule is called %q", c.name, v.Rule)
		}
	}
}

func TestNftLeavesTablesOut(t *testing.T) {
	skip := func(_, table string) bool { return table == "firewalld" }
	tables, err := ParseNft(recorded(t, "firewalld.json"), skip)
	if err != nil || len(tables) != 0 {
		t.Errorf("%d tables, %v", len(tables), err)
	}
	if _, err := ParseNft([]byte("<html>"), all); err == nil {
		t.Error("what is no JSON was read")
	}
}

// Chains that lead to each other end, and decide nothing.
func TestRulesWithoutEnd(t *testing.T) {
	var text strings.Builder
	text.WriteString("*filter\n:INPUT DROP [0:0]\n:a - [0:0]\n-A INPUT -j a\n")
	for range 10 {
		text.WriteString("-A a -j a\n")
	}
	if _, ok := Blocked(save(t, "ip", text.String()), dhcp(67)); ok {
		t.Error("decided by rules that never end")
	}
}
