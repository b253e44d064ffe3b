package fence

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
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

// meant is which machine an entry means.
type meant struct {
	host     string   // that is spoken to, in one spelling; "" if the entry does not say
	port     string   // ":PORT" if that makes it another host
	scope    string   // where the names of machines hold, if no host does
	machines []string // there: more than one if the machine has several plugs; none if that is not known
	// part says that the machine is one of several that its host may serve, whole that
	// the host serves no other.
	part, whole bool
}

// listed is a kube node in the list of a device.
type listed struct {
	*spec
	node
	kube  string
	meant meant
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
			all = append(all, listed{s, n, r.kubeNode(n.name), s.kind.meant(s, n)})
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

// sameController tells of a kube node that has a whole host, as by IPMI, where that host
// serves another kube node, as by Redfish. A host that serves several machines is a
// chassis, and says nothing.
func (r *reader) sameController(all []listed, addresses map[string][]string, told map[string]bool) {
	machines := make(map[string]map[string]listed) // by host, by kube node
	for _, n := range all {
		if !n.meant.part {
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
		if !n.meant.whole || told[n.path()] {
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

// keys are equal for two entries that mean one machine. There are several for one
// with several addresses or plugs.
func (n listed) keys(addresses map[string][]string) (keys []string) {
	hosts := n.hosts(addresses)
	if len(hosts) == 0 {
		hosts = []string{n.meant.scope}
	}
	for _, host := range hosts {
		for _, machine := range n.meant.machines {
			keys = append(keys, n.kind.name+" "+host+" "+machine)
		}
	}
	return keys
}

// hosts are the names of the host that an entry speaks to: as it is written, and its
// addresses. One with a port of its own is another host.
func (n listed) hosts(addresses map[string][]string) []string {
	if n.meant.host == "" {
		return nil
	}
	all := append([]string{n.meant.host}, addresses[n.meant.host]...)
	for i := range all {
		all[i] += n.meant.port
	}
	return all
}

// oneSpelling is the name or the address of a host, however it is written.
func oneSpelling(host string) string {
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return host
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
		if _, err := netip.ParseAddr(n.meant.host); err != nil && n.meant.host != "" {
			names[n.meant.host] = true
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
				r.o.Logger.Warn("resolve address of fence device failed; it is not compared with other addresses", "host", name,
					"err", err)
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
