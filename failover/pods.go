package failover

import (
	"slices"
	"strings"
)

// Keeps says in a few words why a pod of a dead kube node is not deleted, "" if
// it is.
func (s Settings) Keeps(p Pod) string {
	if s.Mode == ModeNooBaa {
		return s.NooBaa.keeps(p)
	}
	return s.Remedy.keeps(p)
}

// keeps leaves out what would come back at once (DaemonSets, static pods), what
// has said that it stays, what has ended and holds nothing, and what the operator
// has left out.
func (r Remedy) keeps(p Pod) string {
	switch {
	case p.DaemonSet:
		return "a DaemonSet's: it would come back at once"
	case p.Mirror:
		return "a static pod: it would come back at once"
	case p.ToleratesOutOfService:
		return "it tolerates " + TaintOutOfService
	case p.Done && !p.Deleting:
		return "it has ended"
	case r.Pods != nil && !r.Pods(p):
		return "failover.namespaces or failover.pod_selector leaves it out"
	}
	return ""
}

// keeps leaves out what NooBaa's own controller does not delete.
func (n NooBaa) keeps(p Pod) string {
	switch {
	case p.Namespace != n.Namespace:
		return "it is not in the namespace of NooBaa"
	case p.Labels[noobaaLabel] != noobaaApp:
		return "it has no label " + noobaaLabel + "=" + noobaaApp
	case slices.ContainsFunc(n.Exempt, func(prefix string) bool { return strings.HasPrefix(p.Name, prefix) }):
		return "failover.noobaa_exempt_prefixes leaves it out"
	}
	return ""
}
