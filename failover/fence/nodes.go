package fence

import (
	"net/url"
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
		if s.kind == kindAgent {
			n.options = r.options(join(path, e.key), e.value, false)
		} else if what, do := word(&n.text, e.value); what != "" {
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
		return "does not say in which cluster it is", "write one of " + strings.Join(r.o.Clusters, ", ") + ", a slash, and the name: two clusters may have a node of that name"
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

// wrongURL says what is wrong with the URL of a ComputerSystem.
func wrongURL(text string, insecure bool) (what, do string) {
	const like = "write it as https://BMC/redfish/v1/Systems/1"
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return "is no URL", like
	case u.Scheme == "http" && !insecure:
		return "would send the password in the clear", "write https, or insecure_skip_verify: true on a network that only you can read"
	case u.User != nil:
		return "holds a user", "write username and password_file instead"
	case u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") == "":
		return "is not the URL of a machine", like
	}
	return "", ""
}

// options reads an agent's options; those of the device are for all machines.
func (r *reader) options(path string, v *yaml.Node, all bool) []option {
	list := make([]option, 0, maxOptions)
	for _, e := range r.entries(path, v, maxOptions) {
		if what, do := wrongOption(e.key, all); what != "" {
			r.problem(e.line, join(path, e.key), what, do)
			continue
		}
		o := option{name: e.key}
		if what, do := word(&o.value, e.value); what != "" {
			r.problem(e.value.Line, join(path, e.key), what, do)
			continue
		}
		list = append(list, o)
	}
	return list
}

// optionName is an option's name as agents compare it.
func optionName(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

var optionWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// wrongOption refuses what is ours to say. A second action would count instead of
// the first, and reboot is what agents do without one.
func wrongOption(name string, all bool) (what, do string) {
	switch optionName(name) {
	case "action", "option", "o", "method", "help", "version":
		return "is not for the file to say", "remove it: trivet says off, on or status, and nothing else"
	case "missing_as_off":
		return "lets a machine that the device does not know count as off", "remove it: a wrong plug would be the proof that a machine is dead"
	case "network_fencing", "record_only", "earlyexit", "warntimeout", "baremetalsolution":
		return "lets the program report success without the power being off", "remove it: pods are moved only from a machine that is off"
	case "passwd", "password", "p":
		return "is a password", "write it into a file, and the file's name as password_file"
	case "plug", "port", "n":
		if all {
			return "names one machine for all", "write it under nodes, for each"
		}
	}
	if !optionWord.MatchString(name) {
		return "is no name of an option", "write it as the program's manual page does, without hyphens in front"
	}
	return "", ""
}
