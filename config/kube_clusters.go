package config

import (
	"fmt"
	"strings"
)

// KubeCluster is a Kubernetes cluster that failover watches or haconfig serves.
type KubeCluster struct{ Name, Kubeconfig string } // Kubeconfig "": that of the pod

// kubeClusters lists clusters in the order of the configuration: those of
// kubeconfigs, NAME=PATH each, then the one in which this peer is a pod, if any.
func kubeClusters(kubeconfigs []string, inCluster string) []KubeCluster {
	var out []KubeCluster
	for _, item := range kubeconfigs {
		name, path, _ := strings.Cut(item, "=")
		out = append(out, KubeCluster{name, path})
	}
	if inCluster != "" {
		out = append(out, KubeCluster{Name: inCluster})
	}
	return out
}

// checkClusterNames finds clusters of a section that have one name.
func (r *review) checkClusterNames(section string, clusters []KubeCluster) {
	seen := make(map[string]bool)
	for _, cluster := range clusters {
		if seen[cluster.Name] {
			key := section + ".kubeconfigs"
			if cluster.Kubeconfig == "" {
				key = section + ".in_cluster"
			}
			r.addProblem(key, fmt.Sprintf("%q names another cluster already", cluster.Name),
				"give each cluster a name of its own")
		}
		seen[cluster.Name] = true
	}
}
