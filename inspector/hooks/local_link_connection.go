package hooks

import (
	"context"
	"maps"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/lldp"
)

// localLinkConnection tells Ironic to which port of which switch each port of
// the node is connected.
type localLinkConnection struct {
	overwrite bool // also what is set already
}

var _ inspector.After = localLinkConnection{}

// configured implements configurable.
func (localLinkConnection) configured(conf config.Inspection) (inspector.Hook, error) {
	return localLinkConnection{overwrite: conf.Processing.OverwriteExisting}, nil
}

// Name implements inspector.Hook.
func (localLinkConnection) Name() string { return "local_link_connection" }

// After implements inspector.After. A port's link is patched whenever its
// interface has LLDP data, be it with nothing, as the contract has it. Ironic
// refuses to change the links of a deployed node: that ends the introspection,
// because what the node is connected to is not what Ironic knows any more.
func (h localLinkConnection) After(ctx context.Context, t *inspector.Task) error {
	return eachHeard(t, func(l link, facts *lldp.Facts) error {
		return changePort(ctx, t, l, "local_link_connection",
			func(p *ironic.Port) []ironic.Patch { return h.patch(p, facts) })
	}, lldp.TypeChassisID, lldp.TypePortID)
}

// patch says how the port's link changes. A switch is known by its MAC alone:
// Ironic takes nothing else.
func (h localLinkConnection) patch(p *ironic.Port, facts *lldp.Facts) []ironic.Patch {
	patch := []ironic.Patch{}
	old := p.LocalLink
	p.LocalLink = maps.Clone(old)
	set := func(item, value string) {
		if _, there := old[item]; value == "" || there && !h.overwrite {
			return
		}
		if p.LocalLink == nil {
			p.LocalLink = make(map[string]any)
		}
		p.LocalLink[item] = value
		patch = append(patch, ironic.Patch{Op: "add", Path: "/local_link_connection/" + item, Value: value})
	}
	chassis := facts.Text(lldp.ChassisID)
	if _, isMAC := identify.CanonicalMAC(chassis); isMAC {
		set("switch_id", chassis)
	}
	set("port_id", facts.Text(lldp.PortID))
	return patch
}
