package hooks

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
)

// physnetCIDRMap tells Ironic the physical network of the node's ports, by the
// addresses that their interfaces got.
type physnetCIDRMap struct {
	networks  []physicalNetwork // the first that has the address counts
	overwrite bool
}

type physicalNetwork struct {
	prefix netip.Prefix
	name   string
}

var _ inspector.After = physnetCIDRMap{}

// configured implements configurable.
func (physnetCIDRMap) configured(conf config.Inspection) (inspector.Hook, error) {
	h := physnetCIDRMap{overwrite: conf.Processing.OverwriteExisting}
	for _, item := range conf.HookOptions.CIDRMap {
		colon := strings.LastIndexByte(item, ':') // the others are IPv6's
		if colon < 0 || colon == len(item)-1 {
			return nil, fmt.Errorf("inspection.port_physnet.cidr_map: %q is not CIDR:NETWORK", item)
		}
		prefix, err := netip.ParsePrefix(item[:colon])
		if err != nil {
			return nil, fmt.Errorf("inspection.port_physnet.cidr_map: %q: %w", item, err)
		}
		h.networks = append(h.networks, physicalNetwork{prefix, item[colon+1:]})
	}
	return h, nil
}

// Name implements inspector.Hook.
func (physnetCIDRMap) Name() string { return "physnet_cidr_map" }

// After implements inspector.After. With overwrite_existing off nothing is set,
// not even what is not set yet: the contract's word. On a deployed node it fails
// as local_link_connection does.
func (h physnetCIDRMap) After(ctx context.Context, t *inspector.Task) error {
	links, err := linksOf(t.Data)
	if err != nil || !h.overwrite {
		return err
	}
	for _, l := range links {
		name, err := h.network(l)
		if err != nil {
			return err
		}
		if name == "" {
			continue
		}
		err = changePort(ctx, t, l, "physical_network", func(p *ironic.Port) []ironic.Patch {
			if p.PhysicalNetwork == name {
				return nil
			}
			p.PhysicalNetwork = name
			return []ironic.Patch{{Op: "add", Path: "/physical_network", Value: name}}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// network returns the physical network of an interface by its IPv4 address, or
// else by its IPv6 address; "" if neither is in one.
func (h physnetCIDRMap) network(l link) (string, error) {
	for _, key := range []string{"ipv4_address", "ipv6_address"} {
		text, err := l.text(key)
		if err != nil {
			return "", err
		}
		ip, err := netip.ParseAddr(text)
		if err != nil {
			continue // none
		}
		i := slices.IndexFunc(h.networks, func(n physicalNetwork) bool { return n.prefix.Contains(ip.WithZone("")) })
		if i >= 0 {
			return h.networks[i].name, nil
		}
	}
	return "", nil
}
