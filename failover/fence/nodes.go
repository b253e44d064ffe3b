package fence

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/trivet-ha/trivet/config"
)

// kubeName is what Kubernetes allows for a Node (RFC 1123, with dots).
var kubeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// nodes reads the list of a device: by kube node, how it is reached.
func (r *reader) nodes(s *spec, v *yaml.Node) (what, do string) {
	path := s.key("nodes")
	list := r.entries(path, v, maxNodes)
	if v.Kind == yaml.MappingNode && len(list) == 0 {
		return "lists no machine", "write the kube nodes that the device reaches"
	}
	for _, e := range list {
		if what, do := r.wrongNode(e.key); what != "" {
			r.problem(e.line, join(path, e.key), what, do)
			continue
		}
		n := node{name: e.key, line: e.line}
		what, do := "", ""
		if s.kind.reach == nil {
			what, do = word(&n.text, e.value)
		} else {
			what, do = s.kind.reach(r, join(path, e.key), e.value, &n.address)
		}
		if what != "" {
			r.problem(e.value.Line, join(path, e.key), what, do)
			continue
		}
		s.nodes = append(s.nodes, n)
	}
	return "", ""
}

// wrongNode says what is wrong with the name of a machine.
func (r *reader) wrongNode(key string) (what, do string) {
	cluster, kube, full := strings.Cut(key, "/")
	switch {
	case !full && !kubeName.MatchString(key), full && !kubeName.MatchString(kube):
		return "is no name of a kube node", "write it as kubectl get nodes does, or CLUSTER/NODE"
	case !full && len(r.o.Clusters) > 1:
		return "does not say in which cluster it is",
			"write one of " + strings.Join(r.o.Clusters, ", ") +
				", a slash, and the name: two clusters may have a node of that name"
	case full && len(r.o.Clusters) > 0 && !slices.Contains(r.o.Clusters, cluster):
		do = "write one of " + strings.Join(r.o.Clusters, ", ")
		if near := config.Nearest(cluster, r.o.Clusters); near != "" {
			do = "did you mean " + near + "/" + kube + "?"
		}
		return "names a cluster that the configuration does not have", do
	}
	return "", ""
}

// kubeNode is the same for both ways to name a kube node of the only cluster.
func (r *reader) kubeNode(name string) string {
	if len(r.o.Clusters) == 1 {
		return strings.TrimPrefix(name, r.o.Clusters[0]+"/")
	}
	return name
}
