package haconfig

import (
	"context"
	"maps"
	"slices"
)

// Topology is where things are in a cluster.
type Topology interface {
	// VolumeZones are the zones that volumes are in, by the namespace of their claim.
	VolumeZones(ctx context.Context) (map[string][]string, error)
	// Places are where the kube nodes are that are not being deleted.
	Places(ctx context.Context) ([]Place, error)
}

// Labels of Nodes, besides topology.kubernetes.io/zone, by which places are told:
// Gardener gives them to the Nodes of its worker pools.
const (
	LabelPool   = "worker.gardener.cloud/pool"
	LabelSystem = "worker.gardener.cloud/system-components"
)

// Place is where a kube node is.
type Place struct {
	Zone   string // "": it does not say
	Pool   string // of workers; "": none
	System bool   // system components may run there
}

// zonesOf are all zones in which there is a kube node, sorted.
func zonesOf(places []Place) []string {
	zones := make([]string, 0, len(places))
	for _, p := range places {
		zones = append(zones, p.Zone)
	}
	return distinct(zones)
}

// systemZones are the zones of the worker pool with the most of them, of those in
// which system components may run. Where no kube node says that it is for system
// components all are; those without a pool are one pool. Of pools with as many zones
// the first by name counts, so that it is always the same.
func systemZones(places []Place) (most []string) {
	system := slices.ContainsFunc(places, func(p Place) bool { return p.System })
	pools := map[string][]Place{}
	for _, p := range places {
		if p.System || !system {
			pools[p.Pool] = append(pools[p.Pool], p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		if zones := zonesOf(pools[name]); len(zones) > len(most) {
			most = zones
		}
	}
	return most
}
