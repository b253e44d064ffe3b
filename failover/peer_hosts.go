package failover

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/pace"
)

const (
	// findEvery is how often the addresses of the peers' hosts are found again, and
	// findLimit how long one question may take.
	findEvery = 30 * time.Second
	findLimit = 5 * time.Second
)

// Finder finds the addresses of hosts. Its methods may be called concurrently.
type Finder interface {
	// LookupHost returns the addresses of a host by its name.
	LookupHost(ctx context.Context, name string) ([]string, error)
	// Own returns the addresses of this host.
	Own() ([]string, error)
}

// SystemFinder asks the resolver and the interfaces of this host.
type SystemFinder struct{ net.Resolver }

var _ Finder = (*SystemFinder)(nil)

// Own implements Finder.
func (*SystemFinder) Own() (own []string, err error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of this host: %w", err)
	}
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, prefix.Addr().String())
		}
	}
	return own, nil
}

// peerHosts knows the addresses of the peers that are known by name: a kube node is
// known by addresses, and the guard rail that protects the own quorum has to find the
// peers on it. What was found stays while the resolver does not answer. All methods
// may be called concurrently.
type peerHosts struct {
	finder Finder
	self   string                             // server ID of this peer
	told   func(peer string) (Identity, bool) // as ControllerOptions.Machine; nil: no peer tells

	mu    sync.Mutex
	found map[string][]string // by name
	own   []string
}

func newPeerHosts(f Finder, self string) *peerHosts {
	return &peerHosts{finder: f, self: self, found: make(map[string][]string)}
}

// findAddresses finds the addresses again and again until ctx ends.
func (p *peerHosts) findAddresses(ctx context.Context, log Log) {
	for {
		v, _ := log.Changed()
		p.find(ctx, v)
		if !pace.Wait(ctx, findEvery) {
			return
		}
	}
}

// find asks for every name among the addresses of the peers. Of one that cannot be
// resolved the guard rail tells.
func (p *peerHosts) find(ctx context.Context, v fsm.View) {
	if own, err := p.finder.Own(); err == nil {
		p.keep(func() { p.own = own })
	}
	for _, m := range v.Members() {
		for _, host := range hosts(m.Address, m.Gossip, m.API) {
			if isAddress(host) {
				continue
			}
			limited, cancel := context.WithTimeout(ctx, findLimit)
			all, err := p.finder.LookupHost(limited, host)
			cancel()
			// A loopback address is what a host calls itself by; it is no other's.
			all = slices.DeleteFunc(all, func(address string) bool {
				a, err := netip.ParseAddr(address)
				return err == nil && a.Unmap().IsLoopback()
			})
			if err == nil && len(all) > 0 {
				p.keep(func() { p.found[host] = all })
			}
		}
	}
}

func (p *peerHosts) keep(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// namesOfHost returns what a peer's host is known by, and the names of which no address is
// known.
func (p *peerHosts) namesOfHost(m membership.Member) (all, unknown []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all = append(hosts(m.Address, m.Gossip, m.API), m.Name)
	if m.ID == p.self {
		all = append(all, p.own...)
	}
	for _, host := range hosts(m.Address, m.Gossip, m.API) {
		found := p.found[host]
		if all = append(all, found...); len(found) == 0 && !isAddress(host) && !slices.Contains(unknown, host) {
			unknown = append(unknown, host)
		}
	}
	return all, unknown
}

// machine returns what a peer last told of its machine, and whether that is so now.
func (p *peerHosts) machine(id string) (Identity, bool) {
	if p.told == nil {
		return Identity{}, true
	}
	return p.told(id)
}

func isAddress(host string) bool {
	_, ok := plainAddress(host)
	return ok
}

// plainAddress is an address in one spelling.
func plainAddress(host string) (address string, ok bool) {
	a, err := netip.ParseAddr(host)
	return a.Unmap().WithZone("").String(), err == nil
}

// sameHost compares two addresses, or two names as DNS does.
func sameHost(a, b string) bool {
	x, ok := plainAddress(a)
	y, also := plainAddress(b)
	if !ok || !also {
		return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
	}
	return x == y
}
