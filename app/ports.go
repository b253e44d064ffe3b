package app

import (
	"context"

	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// portLister lists Ironic's ports for the blacklist. A port whose address is no
// MAC (InfiniBand's are longer) is left out: the filter matches Ethernet frames.
type portLister struct{ ironic *ironic.Client }

// AllPorts implements firewall.PortLister.
func (l portLister) AllPorts(ctx context.Context) ([]ironicports.Port, error) {
	listed, err := l.ironic.AllPorts(ctx)
	if err != nil {
		return nil, err
	}
	ports := make([]ironicports.Port, 0, len(listed))
	for _, p := range listed {
		if mac, ok := identify.CanonicalMAC(p.Address); ok {
			ports = append(ports, ironicports.Port{ID: p.UUID, MAC: mac, Node: p.Node})
		}
	}
	return ports, nil
}
