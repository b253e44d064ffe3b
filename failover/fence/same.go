package fence

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// lookupLimit bounds the time for all host names of a file, and maxLookups how
	// many are under way at once.
	lookupLimit = 5 * time.Second
	maxLookups  = 16
)

// listed is a kube node in the list of a device.
type listed struct {
	*spec
	node
	kube string
}

// path names the entry in messages.
func (n listed) path() string { return n.key("nodes." + n.node.name) }

// sameMachine tells of two kube nodes with one machine, within a device and across
// devices, however its address is written: one of them would be taken for off when
// the other is.
func (r *reader) sameMachine(specs []*spec) {
	var all []listed
	for _, s := range specs {
		for _, n := range s.nodes {
			all = append(all, listed{s, n, r.kubeNode(n.name)})
		}
	}
	addresses := r.resolved(all)
	seen := make(map[string]listed)
	told := make(map[string]bool) // by key
	for _, n := range all {
		for _, key := range n.keys(addresses) {
			other, taken := seen[key]
			if !taken {
				seen[key] = n
				continue
			}
			if other.kube != n.kube && !told[n.path()] {
				told[n.path()] = true
				r.shared(n, other)
			}
		}
	}
	r.sameController(all, addresses, told)
}

// shared tells of a machine that two kube nodes have.
func (r *reader) shared(n, other listed) {
	where := fmt.Sprintf("%s on line %d", other.node.name, other.node.line)
	if other.spec != n.spec {
		where = fmt.Sprintf("%s of device %s on line %d", other.node.name, other.place, other.node.line)
	}
	r.problem(n.node.line, n.path(), "is the same machine as that of "+where, "write its own")
}

// sameController tells of a kube node whose agent speaks to a whole BMC that is, by
// Redfish, the one of another kube node. A host that serves several machines by
// Redfish is a chassis, and says nothing.
func (r *reader) sameController(all []listed, addresses map[string][]string, told map[string]bool) {
	machines := make(map[string]map[string]listed) // by host, by kube node
	for _, n := range all {
		if n.kind != kindRedfish {
			continue
		}
		for _, host := range n.hosts(addresses) {
			if machines[host] == nil {
				machines[host] = make(map[string]listed)
			}
			machines[host][n.kube] = n
		}
	}
	for _, n := range all {
		if n.kind != kindAgent || told[n.path()] {
			continue
		}
		if c := n.chosen(); len(c.plugs) > 0 || c.rest != "" {
			continue
		}
		for _, host := range n.hosts(addresses) {
			there := machines[host]
			if _, own := there[n.kube]; len(there) == 1 && !own {
				r.shared(n, there[slices.Collect(maps.Keys(there))[0]])
				break
			}
		}
	}
}

// choice is what an agent's options say about which machine is meant.
type choice struct {
	host  string
	plugs []string
	rest  string // options that may choose a machine, or may not
}

// chosen reads the options of the device and of the machine, which go first.
func (n listed) chosen() choice {
	values := make(map[string]string)
	for _, o := range slices.Concat(n.spec.options, n.address.options) {
		values[canonical(o.name)] = o.value
	}
	c := choice{host: values["ip"]}
	plug, separator := values["plug"], values["plug_separator"]
	if separator == "" {
		separator = ","
	}
	switch asIP := values["port_as_ip"]; {
	case plug == "":
	case asIP != "" && asIP != "0" && !strings.EqualFold(asIP, "false"):
		c.host = plug
	default:
		for one := range strings.SplitSeq(plug, separator) {
			c.plugs = append(c.plugs, strings.ToLower(strings.TrimSpace(one)))
		}
	}
	var rest []string
	for name, value := range values {
		if name != "ip" && name != "plug" && !indifferent(name) {
			rest = append(rest, name+"="+value)
		}
	}
	slices.Sort(rest)
	c.rest = strings.Join(rest, "\n")
	return c
}

// canonical is one name for all names that fence agents have for an option.
func canonical(option string) string {
	switch name := optionName(option); name {
	case "ipaddr", "ipaddress", "ip_address", "a":
		return "ip"
	case "port", "n", "uuid":
		return "plug"
	case "u":
		return "ipport"
	case "s":
		return "switch"
	default:
		return name
	}
}

// indifferent reports whether an option says how a device is spoken to, and not
// which machine is meant.
func indifferent(name string) bool {
	switch name {
	case "username", "login", "l", "lanplus", "cipher", "privlvl", "auth", "hexadecimal_kg", "community", "secure", "ssh", "x", "ssl", "z",
		"ssl_secure", "ssl_insecure", "notls", "ssh_options", "identity_file", "k", "cmd_prompt", "command_prompt", "verbose", "verbose_level", "v",
		"debug", "debug_file", "quiet", "q", "sudo", "use_sudo", "inet4_only", "inet6_only", "separator", "plug_separator", "port_as_ip",
		"delay", "power_wait", "retry_on", "stonith_status_sleep", "redfish_uri", "ribcl", "ribcl_version", "drac_version":
		return true
	}
	return strings.HasSuffix(name, "_timeout") || strings.HasSuffix(name, "_path") || strings.HasSuffix(name, "_script") || strings.HasPrefix(name, "snmp_")
}

// keys are equal for two entries that mean one machine. There are several for one
// with several addresses or plugs.
func (n listed) keys(addresses map[string][]string) (keys []string) {
	switch n.kind {
	case kindIronic:
		return []string{"ironic " + strings.ToLower(n.text)}
	case kindRedfish:
		path := n.text
		if u, err := url.Parse(n.text); err == nil {
			path = u.Path
		}
		for _, host := range n.hosts(addresses) {
			keys = append(keys, "redfish "+host+" "+strings.ToLower(strings.TrimSuffix(path, "/")))
		}
		return keys
	}
	c := n.chosen()
	hosts := n.hosts(addresses)
	if len(hosts) == 0 {
		hosts = []string{filepath.Base(n.program)} // a plug alone means something to one program only
	}
	plugs := c.plugs
	if len(plugs) == 0 {
		plugs = []string{""}
	}
	for _, host := range hosts {
		for _, plug := range plugs {
			keys = append(keys, "agent "+host+" "+plug+" "+c.rest)
		}
	}
	return keys
}

// hosts are the names of the host that an entry speaks to: as it is written, and its
// addresses. One with a port of its own is another host.
func (n listed) hosts(addresses map[string][]string) []string {
	host, port := n.host()
	if host == "" {
		return nil
	}
	all := append([]string{host}, addresses[host]...)
	for i := range all {
		all[i] += port
	}
	return all
}

// host is where an entry speaks to, in one spelling; "" if it does not say.
func (n listed) host() (host, port string) {
	switch n.kind {
	case kindAgent:
		host = n.chosen().host
	case kindRedfish:
		u, err := url.Parse(n.text)
		if err != nil {
			return "", ""
		}
		if host, port = u.Hostname(), u.Port(); port == "443" && u.Scheme == "https" || port == "80" && u.Scheme == "http" {
			port = ""
		}
		if port != "" {
			port = ":" + port
		}
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	return host, port
}

// resolved looks up the host names of a file. Names that cannot be resolved are
// logged and left out.
func (r *reader) resolved(all []listed) map[string][]string {
	addresses := make(map[string][]string)
	if r.o.Lookup == nil {
		return addresses
	}
	names := make(map[string]bool)
	for _, n := range all {
		host, _ := n.host()
		if _, err := netip.ParseAddr(host); err != nil && host != "" {
			names[host] = true
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupLimit)
	defer cancel()
	var mu sync.Mutex
	var workers sync.WaitGroup
	room := make(chan struct{}, maxLookups)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		room <- struct{}{}
		workers.Go(func() {
			defer func() { <-room }()
			found, err := r.o.Lookup(ctx, name)
			if err != nil {
				r.o.Logger.Warn("resolve address of fence device failed; it is not compared with other addresses", "host", name, "err", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, text := range found {
				if ip, err := netip.ParseAddr(text); err == nil {
					addresses[name] = append(addresses[name], ip.Unmap().String())
				}
			}
		})
	}
	workers.Wait()
	return addresses
}
