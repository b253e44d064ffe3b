package config

import (
	"cmp"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
)

// CheckPairs finds options that are right one by one and of no use, or harmful, together.
// 'config check', init and join refuse them; serve and a reload warn, and status and
// doctor repeat it: a peer that ran with such a pair must start on the day of an upgrade
// (docs/design.md#pairs). Each problem names both options and the places where they were
// written.
func (c Config) CheckPairs() Problems {
	r := review{Config: c}
	r.pairFloatingIP()
	r.pairWebhook()
	r.pairAdvertised("cluster", c.Cluster)
	r.pairAdvertised("gossip", c.Gossip)
	if a := c.Cluster.Advertise; a != "" && a == c.Gossip.Advertise {
		r.addProblem("gossip.advertise",
			a+" is "+r.keyWithPlace("cluster.advertise")+" too, and each is a service of its own",
			"write the port at which the others reach gossip.listen")
	}
	r.pairOwnURLs()
	r.pairPaths()
	r.pairBounds()
	r.pairLogins()
	return r.found
}

// CheckName finds a name that was written when the cluster knew the host by another one already. The host's
// own name, which is the default, may change.
func (c Config) CheckName(known string) Problems {
	r := review{Config: c}
	r.when(c.Name != known && c.Origin("name").Kind != FromDefault, "name",
		fmt.Sprintf("%s is not used: the cluster knows this host as %s since it joined", c.Name, known),
		"write "+known+"; to rename it: 'trivet leave' here, then 'trivet join' under the new name")
	return r.found
}

// pairLogins finds users and passwords that no login uses: their absence is what a service
// sees, or, of the API, that strangers are let in.
func (r *review) pairLogins() {
	for _, login := range []struct {
		key, value string // what decides
		used       bool
		keys       []string
		do         string
	}{
		{"ironic.auth_type", r.Ironic.AuthType, r.Ironic.AuthType != "none",
			[]string{"ironic.username", "ironic.password", "ironic.password_file"},
			"write ironic.auth_type: http_basic or keystone"},
		{"api.auth_strategy", r.API.AuthStrategy, r.API.AuthStrategy == StrategyKeystone || r.API.AuthStrategy == "",
			[]string{"api.keystone.username", "api.keystone.password", "api.keystone.password_file"},
			"write api.auth_strategy: keystone"},
		{"api.auth_strategy", r.API.AuthStrategy, r.API.AuthStrategy == "http_basic" || r.API.AuthStrategy == "",
			[]string{"api.http_basic_auth_user_file"}, "write api.auth_strategy: http_basic"},
	} {
		for _, key := range login.keys {
			if o, _ := Lookup(key); !login.used && r.Origin(key).Kind != FromDefault && o.text(&r.Config) != "" {
				r.addProblem(key, "is not used: "+r.keyWithPlace(login.key)+" is "+login.value, login.do+", or remove this line")
			}
		}
	}
}

// keyWithPlace is a key with the place where its value was written, for a problem of another key.
func (c Config) keyWithPlace(key string) string {
	if at := c.Origin(key); at.Kind != FromDefault {
		return fmt.Sprintf("%s (%v)", key, at)
	}
	return key
}

// listener is an option by which this peer listens on TCP.
type listener struct {
	key, text string
	host      netip.Addr // not valid: every address of the host, of both versions of IP
	port      uint64     // 0: any that is free
}

// listenerOf reads what listenAddress accepts. Either wildcard is every address: that is how
// Go listens on them, where the host has both versions of IP.
func listenerOf(key, text string) (l listener, ok bool) {
	host, port, err := splitAddress(text)
	l = listener{key: key, text: text, port: port}
	if ip, unlike := netip.ParseAddr(host); err != nil || host == "" || unlike == nil && ip.IsUnspecified() {
		return l, err == nil
	}
	l.host, err = hostAddr(host)
	return l, err == nil
}

// hostAddr reads an address, or localhost.
func hostAddr(host string) (netip.Addr, error) {
	if host == "localhost" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	a, err := netip.ParseAddr(host)
	return a.Unmap(), err
}

// reaches reports whether a client that calls at an address of this host is answered.
func (l listener) reaches(at netip.Addr) bool { return !l.host.IsValid() || l.host == at }

// loopback reports whether this host alone reaches the listener.
func (l listener) loopback() bool { return l.host.IsValid() && l.host.IsLoopback() }

// everyAddress is what to write to listen on each address of the host.
func everyAddress(port uint64) string { return fmt.Sprintf(`":%d"`, port) }

// listeners are all TCP listeners of a peer, in the order of the table. What cannot be
// read is reported as a value.
func (c Config) listeners() []listener {
	type written struct{ key, text string }
	all := []written{{"api.listen", c.API.Listen}, {"cluster.listen", c.Cluster.Listen},
		{"gossip.listen", c.Gossip.Listen}}
	if key, listen := c.API.Ramdisks(); key != "api.listen" {
		all = append(all, written{key, listen})
	}
	if c.HAConfig.On() {
		all = append(all, written{"haconfig.listen", c.HAConfig.Listen})
	}
	for _, e := range c.Elector.Elections() {
		all = append(all, written{"elector.listen", e.Listen})
	}
	var out []listener
	for _, w := range all {
		if l, ok := listenerOf(w.key, w.text); ok {
			out = append(out, l)
		}
	}
	return out
}

// pairFloatingIP finds listeners that do not answer at the floating IP, which clients call,
// and those that only the host has that holds it.
func (r *review) pairFloatingIP() {
	at, err := hostAddr(r.FloatingIP.Address)
	if err != nil {
		return // there is none
	}
	floating := fmt.Sprintf("%s %v", r.keyWithPlace("floating_ip.address"), at)
	for _, l := range r.listeners() {
		called := l.key == "api.listen" || l.key == "api.ramdisk_listen" ||
			l.key == "haconfig.listen" && r.HAConfig.Via == HAViaFloatingIP
		switch {
		case l.key == "api.ramdisk_listen" && r.Origin(l.key).Kind == FromDefault: // it follows api.listen
		case l.host == at:
			r.addProblem(l.key, fmt.Sprintf("%s: the host that leads alone has %s; the peers on the other hosts cannot start",
				l.text, floating),
				"write "+everyAddress(l.port)+", which is every address of the host")
		case !called:
		case l.port == 0:
			r.addProblem(l.key, fmt.Sprintf("%s is another port after each start, and clients call one port at %s", l.text,
				floating), "write a port, as in "+everyAddress(usualPort(l.key)))
		case !l.reaches(at) && !(l.key == "api.listen" && r.proxied(l)):
			do := "write " + everyAddress(l.port) + ", which is every address of the host"
			if l.key == "api.listen" {
				do += fmt.Sprintf(
					"; or, where a proxy on this host answers at the floating IP, name it: api.trusted_proxies: [%s/%d]",
					l.host.WithZone(""), l.host.BitLen())
			}
			r.addProblem(l.key, fmt.Sprintf("%s is one address of this host, and nothing answers there for clients that call %s",
				l.text, floating), do)
		}
	}
	for key, text := range r.advertised() {
		if l, ok := listenerOf(key, text); ok && l.host == at {
			r.addProblem(key, fmt.Sprintf(
				"%s moves with the leader: it is %s, and the others would dial the leader in place of this peer", text, floating),
				"write an address that this host alone has")
		}
	}
}

// advertised yields the addresses that this peer announces.
func (c Config) advertised() iter.Seq2[string, string] {
	return func(yield func(key, text string) bool) {
		_ = yield("cluster.advertise", c.Cluster.Advertise) && yield("gossip.advertise", c.Gossip.Advertise)
	}
}

// proxied reports whether a proxy on this host stands before the API: one that is trusted
// calls from the loopback, or from the one address on which the API listens.
func (r *review) proxied(l listener) bool {
	for _, text := range r.API.TrustedProxies {
		n, err := netip.ParsePrefix(text)
		if err == nil && (n.Addr().IsLoopback() && l.loopback() || n.IsSingleIP() && n.Addr().Unmap() == l.host) {
			return true
		}
	}
	return false
}

// ProxiedAPI reports whether clients reach the API through a proxy on this host alone.
func (c Config) ProxiedAPI() bool {
	l, ok := listenerOf("api.listen", c.API.Listen)
	return ok && l.host.IsValid() && (&review{Config: c}).proxied(l)
}

// usualPort is the port of a listener's default.
func usualPort(key string) uint64 {
	if key == "api.ramdisk_listen" {
		return ramdiskPort // it has no default of its own
	}
	o, _ := Lookup(key)
	_, port, _ := splitAddress(o.Default) // a slip in the table gives 0; its test finds it
	return port
}

// pairWebhook finds a webhook that no API server reaches.
func (r *review) pairWebhook() {
	h := r.HAConfig
	if !h.On() {
		return
	}
	key := "haconfig.kubeconfigs"
	if len(h.Kubeconfigs) == 0 {
		key = "haconfig.in_cluster"
	}
	clusters := r.keyWithPlace(key)
	if h.Via == HAViaFloatingIP {
		if r.FloatingIP.Address == "" {
			r.addProblem("haconfig.via",
				fmt.Sprintf("floating-ip: the API servers of %s call floating_ip.address, which is empty", clusters),
				"write floating_ip.address and floating_ip.interface, or haconfig.via: endpoints")
			if last := &r.found[len(r.found)-1]; last.Where.Kind == FromDefault { // via is not written
				last.Where = r.Origin(key)
			}
		}
		return
	}
	l, ok := listenerOf("haconfig.listen", h.Listen)
	advertised := r.advertisedAt()
	via := r.keyWithPlace("haconfig.via") + " endpoints"
	if host, _, err := splitAddress(r.Cluster.Advertise); err == nil {
		if _, named := netip.ParseAddr(host); named != nil {
			r.addProblem("cluster.advertise", fmt.Sprintf(
				"%s is a name, and %s publishes addresses: the API servers of %s never call this peer", r.Cluster.Advertise, via,
				clusters), "write the peer's address, as in 192.0.2.1:7350")
		}
	}
	switch {
	case !ok:
	case l.port == 0:
		r.addProblem(l.key, fmt.Sprintf("%s is another port after each start, and %s publishes one port for all peers",
			l.text, via), "write a port, as in "+everyAddress(usualPort(l.key)))
	case l.loopback():
		r.addProblem(l.key, fmt.Sprintf("%s is reached from this host alone, and %s has the API servers of %s call it",
			l.text, via, clusters), "write "+everyAddress(l.port))
	case advertised.host.IsValid() && !l.reaches(advertised.host):
		r.addProblem(l.key, fmt.Sprintf("%s does not answer at %v, the peer's address by %s, which %s publishes", l.text,
			advertised.host, r.keyWithPlace(advertised.key), via), "write "+everyAddress(l.port))
	}
}

// advertisedAt is where the others reach this peer, and the option that says so; the host is not valid where none
// names one.
func (c Config) advertisedAt() listener {
	key, text := "cluster.listen", c.Cluster.Listen
	if c.Cluster.Advertise != "" {
		key, text = "cluster.advertise", c.Cluster.Advertise
	}
	if l, ok := listenerOf(key, text); ok {
		return l
	}
	return listener{key: key}
}

// pairAdvertised finds an address that the others are told and at which nothing listens. One
// that a router translates to another of the same version is right.
func (r *review) pairAdvertised(section string, a Address) {
	l, ok := listenerOf(section+".listen", a.Listen)
	if a.Advertise == "" || !ok {
		return
	}
	told := fmt.Sprintf("%s %s", r.keyWithPlace(section+".advertise"), a.Advertise)
	host, port, err := splitAddress(a.Advertise)
	at, named := hostAddr(host)
	switch {
	case err != nil:
	case l.port == 0 && !l.loopback(): // a trial on one host may take any
		r.addProblem(l.key, fmt.Sprintf("%s is another port after each start, and the others dial %s", l.text, told),
			"write the port, as in "+everyAddress(port))
	case named != nil || !l.host.IsValid(): // a name may be any address
	case l.host.Is4() != at.Is4():
		r.addProblem(l.key, fmt.Sprintf("%s is of another version of IP than %s, which the others dial", l.text, told),
			"write "+everyAddress(l.port)+", or an address of the same version")
	case l.loopback() && !at.IsLoopback():
		r.addProblem(l.key, fmt.Sprintf("%s is reached from this host alone, and the others dial %s", l.text, told),
			"write "+everyAddress(l.port))
	case !l.loopback() && at.IsLoopback():
		r.addProblem(section+".advertise",
			fmt.Sprintf("%s is reached from this host alone, and nothing listens there: %s is %s", a.Advertise,
				r.keyWithPlace(l.key), l.text), "write the address at which the others reach this peer")
	}
}

// pairOwnURLs finds services of others at whose URL this peer itself listens: it would
// ask itself.
func (r *review) pairOwnURLs() {
	type ownURL struct {
		key, text string
		used      bool
	}
	urls := []ownURL{
		{"ironic.endpoint", r.Ironic.Endpoint, true},
		{"ironic.ramdisk_endpoint", r.Ironic.RamdiskEndpoint, true},
		{"ironic.auth_url", r.Ironic.Keystone.AuthURL, r.Ironic.AuthType == "keystone"},
		{"api.keystone.auth_url", r.API.Keystone.AuthURL, r.API.AuthStrategy == StrategyKeystone},
	}
	for _, one := range r.Events.List() {
		if u, err := url.Parse(one.URL); err == nil { // readers are told, and the path may be its secret
			urls = append(urls, ownURL{"events.receivers", (&url.URL{Scheme: u.Scheme, Host: u.Host}).String(), true})
		}
	}
	usual := map[string]string{"http": "80", "https": "443"}
	for _, own := range urls {
		u, err := url.Parse(own.text)
		if !own.used || err != nil || u.Host == "" {
			continue
		}
		service, ok := listenerOf("", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), usual[u.Scheme])))
		if !ok || !service.host.IsValid() || !r.ownAddress(service.host) { // a name may be any address
			continue
		}
		for _, l := range r.listeners() {
			if l.port == service.port && l.reaches(service.host) {
				r.addProblem(own.key, fmt.Sprintf("%s is where this peer itself listens: %s is %s", own.text, r.keyWithPlace(l.key),
					l.text), "write where the service answers, or another port for one of the two")
				break
			}
		}
	}
}

// ownAddress reports whether an address is this host's by the configuration.
func (c Config) ownAddress(at netip.Addr) bool {
	floating, err := hostAddr(c.FloatingIP.Address)
	return err == nil && floating == at || at.IsLoopback() || at == c.advertisedAt().host ||
		slices.ContainsFunc(c.listeners(), func(l listener) bool { return l.host == at })
}

// pairPaths finds two things that were given the same place in the file system.
func (r *review) pairPaths() {
	type place struct{ key, path string }
	places := []place{{"data_dir", r.DataDir}, {"socket", r.Socket}}
	if r.Firewall.Driver == "dnsmasq" {
		places = append(places, place{"firewall.dhcp_hostsdir", r.Firewall.DHCPHostsDir})
	}
	places = append(places, place{"inspection.processing.ramdisk_logs_dir", r.Inspection.Processing.RamdiskLogsDir},
		place{"backup.directory", r.Backup.Directory})
	for i, p := range places {
		for _, other := range places[:i] {
			r.when(p.path != "" && path.Clean(p.path) == path.Clean(other.path), p.key,
				p.path+" is "+r.keyWithPlace(other.key)+" too, and two parts of the peer write there",
				"give each a path of its own")
		}
	}
}

// pairBounds finds bounds that together let nothing happen.
func (r *review) pairBounds() {
	if i := r.Inspection; i.RebootThrottle > 0 && i.RebootThrottle >= i.Timeout {
		r.addProblem("inspection.reboot_throttle",
			fmt.Sprintf(
				"%s between two nodes is not less than %s %s: of two that start together the second ends in error before its turn",
				formatDuration(i.RebootThrottle), r.keyWithPlace("inspection.timeout"), formatDuration(i.Timeout)),
			"write less, or a longer inspection.timeout")
	}
	if r.Failover.Mode != FailoverSafe {
		return
	}
	mode := r.keyWithPlace("failover.mode") + " safe"
	if g := r.Failover.Guard; g.MinHealthy == "100%" {
		r.addProblem("failover.min_healthy",
			fmt.Sprintf("100%%: one dead kube node is too many, so that %s never begins anything", mode),
			"write less, as in 51%")
	}
	if g := r.Failover.Guard; g.MaxUnhealthy != "" && strings.Trim(strings.TrimSuffix(g.MaxUnhealthy, "%"), "0") == "" {
		r.addProblem("failover.max_unhealthy",
			fmt.Sprintf("%s: one dead kube node is too many, so that %s never begins anything", g.MaxUnhealthy, mode),
			"write more, or leave it empty")
	}
}
