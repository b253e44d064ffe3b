package simtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/fsm/ironicports"
)

// doorLease is firewall.lease in the simulation: its default.
const doorLease = 400 * time.Millisecond

// GuardDoors gives every host of the cluster a door and an address to guard;
// call it before the first Start of a peer.
func GuardDoors(c *Cluster, ports *PortTable) {
	c.Gate = func(p *Peer, gate *Gate) *app.Gate {
		return &app.Gate{
			Chains: kernelChains{p.Kernel, gate}, Lease: kernelLease{p.Kernel, gate, &p.Kernel.filter, ""},
			Foreign: p.Kernel.foreign, Ports: ports,
			Policy: firewall.Policy{Discovery: true}, Length: p.Kernel.lease, Freeze: p.Kernel.freeze, Sync: 15 * time.Second,
			Compare: 15 * time.Second,
			GateAddress: app.GateAddress{Address: kernelAddress{p.Kernel, gate}, AddressText: "198.51.100.200",
				AddressLease: kernelLease{p.Kernel, gate, &p.Kernel.shown, " of address"}},
		}
	}
}

// PortTable is the ports that Ironic lists.
type PortTable struct {
	mu    sync.Mutex
	ports []ironicports.Port
	away  bool
}

// Set replaces the list.
func (t *PortTable) Set(ports ...ironicports.Port) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ports = ports
}

// all returns the list.
func (t *PortTable) all() []ironicports.Port {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ports
}

// Away makes every list fail, or none.
func (t *PortTable) Away(away bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away = away
}

// AllPorts implements firewall.PortLister.
func (t *PortTable) AllPorts(context.Context) ([]ironicports.Port, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.away {
		return nil, errors.New("page 2 of the ports: 500")
	}
	return t.ports, nil
}

// OpenDoor returns the peer whose host lets PXE through, nil if none does.
func (c *Cluster) OpenDoor() *Peer {
	now := time.Now()
	for _, p := range c.Peers {
		if p.Kernel.door(now) {
			return p
		}
	}
	return nil
}

// Holder returns the peer whose host has the floating IP, nil if none has.
func (c *Cluster) Holder() *Peer {
	now := time.Now()
	for _, p := range c.Peers {
		if p.Kernel.holds(now) {
			return p
		}
	}
	return nil
}
