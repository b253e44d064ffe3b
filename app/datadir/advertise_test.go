package datadir

import (
	"errors"
	"net"
	"slices"
	"testing"

	"github.com/trivet-ha/trivet/config"
)

// wires are a host's addresses by interface, and from which of them it reaches what.
type wires struct {
	v4, v6   map[string]string // by interface
	inward   []string          // bridges of this host's own containers
	fleeting string            // that it has, and loses by itself
	reaches  map[string]string // target → source
}

func (w wires) network() network {
	of := func(all map[string]string, except []string) (found []string) {
		for name, address := range all { // order-free: sorted
			if !slices.Contains(except, name) {
				found = append(found, address)
			}
		}
		slices.Sort(found)
		return found
	}
	return network{
		has: func(ip net.IP) (bool, error) {
			return slices.Contains(append(append(of(w.v4, nil), of(w.v6, nil)...), w.fleeting), ip.String()), nil
		},
		addresses: func(except []string) (v4, v6 []string, err error) { return of(w.v4, except), of(w.v6, except), nil },
		inward:    func() ([]string, error) { return slices.Clone(w.inward), nil },
		source: func(target string) (string, error) {
			if source, ok := w.reaches[target]; ok {
				return source, nil
			}
			return "", errors.New("network is unreachable")
		},
	}
}

// TestAddressNow: a host has moved where its only address is that from which it reaches its old place,
// and not where its old address is merely absent.
func TestAddressNow(t *testing.T) {
	const docker, six, old = "172.17.0.1", "fd00::9", "10.9.0.1"
	eth := func(address string) map[string]string { return map[string]string{"eth0": address} }
	both := func(address string) map[string]string {
		return map[string]string{"eth0": address, "docker0": docker, "br-pxe": "192.0.2.1"}
	}
	from := func(source string) map[string]string {
		return map[string]string{"10.9.0.1:9": source, "[fd00::9]:9": source}
	}
	for name, c := range map[string]struct {
		was  string
		host wires
		want string // "" for an error
	}{
		"it has it":                        {old, wires{v4: both(old)}, old},
		"it has it in IPv6":                {six, wires{v4: eth(docker), v6: eth(six)}, six},
		"it has it for a while":            {six, wires{v6: eth("fd00::7"), fleeting: six, reaches: from("fd00::7")}, six},
		"written otherwise":                {"FD00:0::9", wires{v4: eth(docker), v6: eth(six)}, "FD00:0::9"},
		"a name":                           {"h1", wires{v4: eth(docker)}, "h1"},
		"its network is not up":            {old, wires{v4: eth(docker)}, ""},
		"its IPv6 network is not up":       {six, wires{v4: eth(docker)}, ""},
		"nothing is up":                    {old, wires{}, ""},
		"another address is the way there": {old, wires{v4: eth(docker), v6: eth(six), reaches: from(six)}, ""},
		"it has moved":                     {old, wires{v4: eth("10.9.0.7"), reaches: from("10.9.0.7")}, "10.9.0.7"},
		"it has moved in IPv6":             {six, wires{v6: eth("fd00::7"), reaches: from("fd00::7")}, "fd00::7"},
		"it has moved, one of several":     {old, wires{v4: both("10.9.0.7"), reaches: from("10.9.0.7")}, ""},
		"it has moved, next to docker0": {old, wires{v4: both("10.9.0.7"), inward: []string{"docker0"},
			reaches: from("10.9.0.7")}, "10.9.0.7"},
	} {
		conf := config.Default()
		conf.Firewall.Interface = "br-pxe"
		got, err := Host{Config: conf}.addressNow(c.host.network(), c.was)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("address-kept: %s: %q (%v), want %q", name, got, err, c.want)
		}
	}
}

// TestAddressOfAJoiner is that from which it reaches the cluster, by whichever version of IP.
func TestAddressOfAJoiner(t *testing.T) {
	host := wires{v4: map[string]string{"docker0": "172.17.0.1"}, v6: map[string]string{"eth0": "fd00::9"},
		inward: []string{"docker0"},
		reaches: map[string]string{"[fd00::1]:7350": "fd00::9", "172.17.0.2:7350": "172.17.0.1",
			"127.0.0.1:7350": "127.0.0.1"}}
	for target, want := range map[string]string{"": "fd00::9", "[fd00::1]:7350": "fd00::9",
		"172.17.0.2:7350": "172.17.0.1", "127.0.0.1:7350": "fd00::9", "away:7350": "fd00::9"} {
		got, err := Host{Config: config.Default()}.onlyAddress(host.network(), target)
		if err != nil || got != want {
			t.Errorf("address-of-a-joiner: towards %q: %q (%v), want %q", target, got, err, want)
		}
	}
	host.v4["eth1"] = "10.9.0.1"
	if got, err := (Host{Config: config.Default()}).onlyAddress(host.network(), "172.17.0.2:7350"); got != "172.17.0.1" {
		t.Errorf("address-of-a-joiner: of several: %q (%v)", got, err)
	}
}

// TestAddressOfAFounder is one at which other hosts reach it, if it has any, and no guess between several.
func TestAddressOfAFounder(t *testing.T) {
	type by = map[string]string
	const docker, virtual, six, boots, own = "172.17.0.1", "192.168.122.1", "fd00::9", "192.0.2.1", "10.9.0.1"
	bridges := []string{"docker0", "virbr0", "br-pxe", "br-fip"} // where their ports are
	for name, c := range map[string]struct {
		host wires
		want string // "" for an error
	}{
		"where machines boot":           {wires{v4: by{"br-pxe": boots, "docker0": docker}}, boots},
		"next to several bridges":       {wires{v4: by{"br-pxe": boots, "docker0": docker, "virbr0": virtual}}, boots},
		"IPv6 alone":                    {wires{v4: by{"docker0": docker}, v6: by{"eth0": six}}, six},
		"next to where machines boot":   {wires{v4: by{"br-pxe": boots, "docker0": docker, "bond0": own}}, own},
		"a bridge that leads out":       {wires{v4: by{"br-pxe": boots, "br0": own}}, own},
		"where the floating IP is":      {wires{v4: by{"br-pxe": boots, "br-fip": own}}, own},
		"a host within this one":        {wires{v4: by{"docker0": docker}}, docker},
		"IPv6 on docker0 as well":       {wires{v4: by{"eth0": own, "docker0": docker}, v6: by{"docker0": six}}, own},
		"several":                       {wires{v4: by{"eth0": own, "eth1": "10.8.0.1", "docker0": docker}}, ""},
		"several of IPv6":               {wires{v4: by{"docker0": docker}, v6: by{"eth0": six, "eth1": "fd01::9"}}, ""},
		"several bridges":               {wires{v4: by{"docker0": docker, "virbr0": virtual}}, ""},
		"no address":                    {wires{}, ""},
		"where machines boot, no other": {wires{v4: by{"br-pxe": boots}}, boots},
	} {
		c.host.inward = bridges
		conf := config.Default()
		conf.Firewall.Interface, conf.FloatingIP.Interface = "br-pxe", "br-fip"
		got, err := Host{Config: conf}.onlyAddress(c.host.network(), "")
		var ambiguous *AddressError
		if got != c.want || errors.As(err, &ambiguous) != (c.want == "") {
			t.Errorf("address-of-a-founder: %s: %q (%v), want %q", name, got, err, c.want)
		}
	}
}
