package app

import (
	"context"
	"net"
	"strings"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// portLister lists Ironic's ports for the blacklist. A port whose address is no
// MAC (InfiniBand's are longer) is nobody's on this network.
type portLister struct {
	ironic *ironic.Client
	guids  bool // which ports are InfiniBand's, is asked, too
}

// AllPorts implements firewall.PortLister.
func (l portLister) AllPorts(ctx context.Context) ([]fsm.Port, error) {
	var more []string
	if l.guids {
		more = []string{"extra"}
	}
	listed, err := l.ironic.AllPorts(ctx, more...)
	if err != nil {
		return nil, err
	}
	ports := make([]fsm.Port, 0, len(listed))
	for _, p := range listed {
		if mac, ok := inspector.CanonicalMAC(p.Address); ok {
			ports = append(ports, fsm.Port{ID: p.UUID, MAC: mac, Node: p.Node, GUID: guidOf(p)})
		}
	}
	return ports, nil
}

// guidOf returns the GUID of an InfiniBand port: the last eight bytes of the DHCP
// client identifier that Ironic has of it. Other identifiers are none.
func guidOf(p inspector.Port) string {
	id, _ := p.Extra["client-id"].(string)
	if len(id) < fsm.GUIDLength {
		return ""
	}
	guid := strings.ToLower(id[len(id)-fsm.GUIDLength:])
	if at, err := net.ParseMAC(guid); err != nil || len(at) != 8 || at.String() != guid {
		return ""
	}
	return guid
}
