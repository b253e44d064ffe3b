package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// review is what is found in a configuration whose values are right one by one.
type review struct {
	Config
	found Problems
}

// addProblem says what is wrong with a key, and what to do.
func (r *review) addProblem(key, what, do string) {
	r.found = append(r.found, Problem{Where: r.Origin(key), Key: key, What: what, Do: do})
}

// when is addProblem where something is wrong.
func (r *review) when(wrong bool, key, what, do string) {
	if wrong {
		r.addProblem(key, what, do)
	}
}

// crossCheck finds values that are right one by one and wrong together.
func (c Config) crossCheck() Problems {
	r := review{Config: c}
	r.checkAPI()
	for section, conf := range r.clientTLS() { // a certificate without its key, or the other way round
		key, other := section+"cert_file", section+"key_file"
		if conf.CertFile == "" {
			key, other = other, key
		}
		r.when((conf.CertFile == "") != (conf.KeyFile == ""), key, "is of no use alone", "write "+other+" too")
	}
	r.when(r.FloatingIP.Address != "" && r.FloatingIP.Interface == "", "floating_ip.address",
		"no interface carries the address", "write floating_ip.interface")
	r.when(r.FloatingIP.Address == "" && r.FloatingIP.Interface != "", "floating_ip.interface",
		"there is no address for it to carry", "write floating_ip.address")
	r.when(r.Firewall.DenyUnknownMACs && r.Inspection.Processing.NodeNotFoundHook != "", "firewall.deny_unknown_macs",
		"keeps out the machines that inspection.processing.node_not_found_hook would enroll", "set one of the two")
	switch f := r.Firewall; {
	case f.Driver == "iptables" && f.Match == "chaddr":
		r.addProblem("firewall.match", "chaddr is inside DHCP, where firewall.driver iptables does not look",
			"write firewall.driver: nftables or dnsmasq, or firewall.match: ether")
	case f.Driver == "dnsmasq" && f.Match == "ether":
		r.addProblem("firewall.match",
			"ether is the frame's source, and firewall.driver dnsmasq compares what stands inside DHCP",
			"write chaddr, or firewall.driver: nftables")
	}
	r.checkIronic()
	if p := r.Inspection.Processing; p.AddPorts == "disabled" && p.KeepPorts == "added" {
		r.addProblem("inspection.processing.keep_ports",
			"added keeps the ports of inspection.processing.add_ports, which is disabled", "write all")
	}
	r.checkFailover()
	r.checkHAConfig()
	r.checkElector()
	r.checkEvents()
	r.portConflicts()
	return r.found
}

// checkIronic finds credentials that are not whole.
func (r *review) checkIronic() {
	i := r.Ironic
	r.when(i.AuthType != "none" && (i.Username == "" || i.Password == "" && i.PasswordFile == ""), "ironic.auth_type",
		i.AuthType+" needs a user", "write ironic.username, and ironic.password or ironic.password_file")
	r.when(i.Password != "" && i.PasswordFile != "", "ironic.password_file", "there is ironic.password too",
		"remove one of the two")
	if i.AuthType != "keystone" {
		return
	}
	for _, need := range []struct{ key, value string }{
		{"ironic.auth_url", i.Keystone.AuthURL}, {"ironic.project_name", i.Keystone.Project},
		{"ironic.user_domain_name", i.Keystone.UserDomain}, {"ironic.project_domain_name", i.Keystone.ProjectDomain},
	} {
		r.when(need.value == "", need.key, "keystone needs it", "write it, as in the openrc file of the user")
	}
}

// portConflicts finds two listeners on one TCP port of the same address. Port 0 means
// any free port.
func (r *review) portConflicts() {
	all := r.listeners()
	for i, l := range all {
		for _, other := range all[:i] {
			if !l.overlaps(other) {
				continue
			}
			taken := fmt.Sprintf("%s is taken by %s (%s)", l.text, other.key, other.text)
			if at := r.Origin(other.key); at.Kind != FromDefault {
				taken += ", written in " + at.String()
			}
			r.addProblem(l.key, taken, "give each a port of its own")
		}
	}
}

// overlaps reports whether two listeners cannot be open together.
func (l listener) overlaps(other listener) bool {
	return l.port == other.port && l.port != 0 && (l.host == other.host || !l.host.IsValid() || !other.host.IsValid())
}

// secondLook collects what is allowed and still deserves a word.
func (c Config) secondLook() Problems {
	r := review{Config: c}
	if r.Inspection.Timeout > 900*time.Second { // the HA specification's bound
		r.addProblem("inspection.timeout", formatDuration(r.Inspection.Timeout)+" is more than 15m",
			"a machine that never answers blocks its node that long")
	}
	r.when(r.Firewall.Driver == "noop", "firewall.driver", "noop filters nothing: all three hosts answer PXE at once",
		"use it only where no DHCP server runs")
	r.lookAtAPI()
	r.lookAtServices()
	r.lookAtReceivers()
	r.lookAtIronic()
	r.lookAtFailover()
	r.lookAtUnused()
	return r.found
}

// lookAtIronic warns of credentials that go unused, or in the clear.
func (r *review) lookAtIronic() {
	i := r.Ironic
	r.when(i.AuthType == "http_basic" && inTheClear(i.Endpoint), "ironic.endpoint",
		"the password goes over the network unencrypted", "use https")
	r.when(i.AuthType == "keystone" && inTheClear(i.Keystone.AuthURL), "ironic.auth_url",
		"the password goes over the network unencrypted", "use https")
}

// inTheClear reports whether a URL leads out of this host without TLS.
func inTheClear(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "http" && !loopbackHost(u.Hostname())
}

// setDependentDefaults gives four options the defaults that depend on others. The API has one on
// loopback alone (docs/design.md#auth), where no ramdisk calls; Keystone's catalogue knows the endpoint; dnsmasq
// compares the client's address inside DHCP and nothing else.
func (c *Config) setDependentDefaults() {
	if c.API.AuthStrategy == "" && loopback(c.API.Listen) {
		c.API.AuthStrategy = "noauth"
	}
	taken := func(l listener) bool { return l.port == ramdiskPort }
	if host, port, err := splitAddress(c.API.Listen); c.API.RamdiskListen == "" && err == nil && port != 0 &&
		!loopback(c.API.Listen) && !slices.ContainsFunc(c.listeners(), taken) {
		c.API.RamdiskListen = net.JoinHostPort(host, strconv.Itoa(ramdiskPort))
	}
	if c.Ironic.AuthType == "keystone" && c.Origin("ironic.endpoint").Kind == FromDefault {
		c.Ironic.Endpoint = ""
	}
	if c.Firewall.Driver == "dnsmasq" && c.Origin("firewall.match").Kind == FromDefault {
		c.Firewall.Match = "chaddr"
	}
}

// CheckServe reports what must be written before this peer may run, and need
// not be for any other command. The error, if any, is a [Problems].
func (c Config) CheckServe() error {
	r := review{Config: c}
	r.when(c.API.AuthStrategy == "", "api.auth_strategy",
		fmt.Sprintf("is not written, and %s is more than this host", c.API.Listen),
		"write http_basic or keystone, or noauth if everybody who reaches it may use it")
	r.when(c.Name == "", "name", "is not written, and the host's name will not do", "write one")
	return r.found.err()
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && loopbackHost(host)
}

func loopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
