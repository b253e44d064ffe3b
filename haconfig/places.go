package haconfig

import "context"

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
