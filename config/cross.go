package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// crossCheck finds values that are right one by one and wrong together.
func (c Config) crossCheck() Problems {
	var problems Problems
	refuse := func(key, what, do string) {
		problems = append(problems, Problem{Where: c.Origin(key), Key: key, What: what, Do: do})
	}
	problems = append(problems, c.checkAPI()...)
	problems = append(problems, c.checkClientTLS()...)
	if c.FloatingIP.Address != "" && c.FloatingIP.Interface == "" {
		refuse("floating_ip.address", "no interface carries the address", "write floating_ip.interface")
	}
	if c.FloatingIP.Address == "" && c.FloatingIP.Interface != "" {
		refuse("floating_ip.interface", "there is no address for it to carry", "write floating_ip.address")
	}
	if c.Firewall.DenyUnknownMACs && c.Inspection.Processing.NodeNotFoundHook != "" {
		refuse("firewall.deny_unknown_macs", "keeps out the machines that inspection.processing.node_not_found_hook would enroll", "set one of the two")
	}
	switch f := c.Firewall; {
	case f.Driver == "iptables" && f.Match == "chaddr":
		refuse("firewall.match", "chaddr is inside DHCP, where firewall.driver iptables does not look", "write firewall.driver: nftables or dnsmasq, or firewall.match: ether")
	case f.Driver == "dnsmasq" && f.Match == "ether":
		refuse("firewall.match", "ether is the frame's source, and firewall.driver dnsmasq compares what stands inside DHCP", "write chaddr, or firewall.driver: nftables")
	}
	problems = append(problems, c.checkIronic()...)
	if p := c.Inspection.Processing; p.AddPorts == "disabled" && p.KeepPorts == "added" {
		refuse("inspection.processing.keep_ports", "added keeps the ports of inspection.processing.add_ports, which is disabled", "write all")
	}
	problems = append(problems, c.checkFailover()...)
	problems = append(problems, c.checkHAConfig()...)
	problems = append(problems, c.checkElector()...)
	problems = append(problems, c.portConflicts()...)
	return problems
}

// checkIronic finds credentials that are not whole.
func (c Config) checkIronic() Problems {
	var problems Problems
	refuse := func(key, what, do string) {
		problems = append(problems, Problem{Where: c.Origin(key), Key: key, What: what, Do: do})
	}
	i := c.Ironic
	if i.AuthType != "none" && (i.Username == "" || i.Password == "" && i.PasswordFile == "") {
		refuse("ironic.auth_type", i.AuthType+" needs a user", "write ironic.username, and ironic.password or ironic.password_file")
	}
	if i.Password != "" && i.PasswordFile != "" {
		refuse("ironic.password_file", "there is ironic.password too", "remove one of the two")
	}
	if i.AuthType != "keystone" {
		return problems
	}
	for _, need := range []struct{ key, value string }{
		{"ironic.auth_url", i.Keystone.AuthURL}, {"ironic.project_name", i.Keystone.Project},
		{"ironic.user_domain_name", i.Keystone.UserDomain}, {"ironic.project_domain_name", i.Keystone.ProjectDomain},
	} {
		if need.value == "" {
			refuse(need.key, "keystone needs it", "write it, as in the openrc file of the user")
		}
	}
	return problems
}

// portConflicts finds two listeners on one TCP port of the same address. Port 0
// is whatever is free.
func (c Config) portConflicts() Problems {
	keys := []string{"api.listen", "cluster.listen", "gossip.listen"}
	addresses := []string{c.API.Listen, c.Cluster.Listen, c.Gossip.Listen}
	if c.HAConfig.On() {
		keys, addresses = append(keys, "haconfig.listen"), append(addresses, c.HAConfig.Listen)
	}
	for _, e := range c.Elector.Elections() {
		keys, addresses = append(keys, "elector.listen"), append(addresses, e.Listen)
	}
	var problems Problems
	for i := range keys {
		for j := range i {
			if overlap(addresses[i], addresses[j]) {
				problems = append(problems, Problem{Where: c.Origin(keys[i]), Key: keys[i],
					What: fmt.Sprintf("%s is taken by %s (%s)", addresses[i], keys[j], addresses[j]), Do: "give each a port of its own"})
			}
		}
	}
	return problems
}

func overlap(a, b string) bool {
	hostA, portA, errA := splitAddress(a)
	hostB, portB, errB := splitAddress(b)
	if errA != nil || errB != nil || portA != portB || portA == 0 {
		return false // what cannot be parsed is reported elsewhere
	}
	return hostA == hostB || wildcard(hostA) || wildcard(hostB)
}

func wildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// secondLook collects what is allowed and still deserves a word.
func (c Config) secondLook() Problems {
	var warnings Problems
	warn := func(key, what, do string) {
		warnings = append(warnings, Problem{Where: c.Origin(key), Key: key, What: what, Do: do})
	}
	if c.Inspection.Timeout > 900*time.Second { // the HA specification's bound
		warn("inspection.timeout", formatDuration(c.Inspection.Timeout)+" is more than 15m", "a machine that never answers blocks its node that long")
	}
	if c.Firewall.Driver == "noop" {
		warn("firewall.driver", "noop filters nothing: all three hosts answer PXE at once", "use it only where no DHCP server runs")
	}
	return slices.Concat(warnings, c.lookAtAPI(), c.lookAtServices(), c.lookAtIronic(), c.lookAtFailover())
}

// lookAtIronic warns of credentials that go unused, or in the clear.
func (c Config) lookAtIronic() Problems {
	var warnings Problems
	warn := func(key, what, do string) {
		warnings = append(warnings, Problem{Where: c.Origin(key), Key: key, What: what, Do: do})
	}
	i := c.Ironic
	if i.AuthType == "none" && (i.Username != "" || i.Keystone.AuthURL != "") {
		warn("ironic.auth_type", "none: the user that is written is not used", "write http_basic or keystone, or remove the user")
	}
	if i.AuthType == "http_basic" && inTheClear(i.Endpoint) {
		warn("ironic.endpoint", "the password goes over the network unencrypted", "use https")
	}
	if i.AuthType == "keystone" && inTheClear(i.Keystone.AuthURL) {
		warn("ironic.auth_url", "the password goes over the network unencrypted", "use https")
	}
	return warnings
}

// inTheClear reports whether a URL leads out of this host without TLS.
func inTheClear(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "http" && !loopbackHost(u.Hostname())
}

// settleIronic leaves the endpoint to Keystone's catalogue where nobody wrote
// one.
func (c *Config) settleIronic() {
	if c.Ironic.AuthType == "keystone" && c.Origin("ironic.endpoint").Kind == FromDefault {
		c.Ironic.Endpoint = ""
	}
}

// settleMatch is about dnsmasq, which compares the client's address inside DHCP
// and nothing else.
func (c *Config) settleMatch() {
	if c.Firewall.Driver == "dnsmasq" && c.Origin("firewall.match").Kind == FromDefault {
		c.Firewall.Match = "chaddr"
	}
}

// settleAuth gives the API its one default, on loopback (docs/design.md#auth).
func (c *Config) settleAuth() {
	if c.API.AuthStrategy == "" && loopback(c.API.Listen) {
		c.API.AuthStrategy = "noauth"
	}
}

// CheckServe reports what must be written before this peer may run, and need
// not be for any other command. The error, if any, is a [Problems].
func (c Config) CheckServe() error {
	var problems Problems
	if c.API.AuthStrategy == "" {
		problems = append(problems, Problem{Where: c.Origin("api.auth_strategy"), Key: "api.auth_strategy",
			What: fmt.Sprintf("is not written, and %s is more than this host", c.API.Listen),
			Do:   "write http_basic or keystone, or noauth if everybody who reaches it may use it"})
	}
	if c.Name == "" {
		problems = append(problems, Problem{Where: c.Origin("name"), Key: "name", What: "is not written, and the host's name will not do", Do: "write one"})
	}
	return problems.err()
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && loopbackHost(host)
}

func loopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
