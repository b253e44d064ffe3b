package haconfig

import "strings"

// Kinds of components that the tables tell apart. Any other text of the label is
// that of a server.
const (
	controller = "controller"
	server     = "server"
)

// ComponentRule says what components are that have no label type. Everything that it
// names must fit.
type ComponentRule struct {
	Namespace string            // a '*' at its end stands for anything; "": any
	Name      string            // likewise
	Labels    map[string]string // of the component
	// Type is controller, server or observability. The last is none of the label's
	// values: there any text that is not known is that of a server.
	Type string
}

// observability is the type of what may be down while its host is: one replica, and a
// budget that lets it go. Only a rule names it.
const observability = "observability"

// fits reports whether a rule is for a component.
func (r ComponentRule) fits(namespace, name string, labels map[string]string) bool {
	return matchesName(r.Namespace, namespace) && matchesName(r.Name, name) && hasLabels(labels, r.Labels)
}

// matchesName reports whether a name is that of a rule: "" is any, and a '*' at its
// end stands for anything.
func matchesName(pattern, name string) bool {
	stem, open := strings.CutSuffix(pattern, "*")
	return pattern == "" || name == pattern || open && strings.HasPrefix(name, stem)
}

// hasLabels reports whether all that are wanted are there.
func hasLabels(has, wanted map[string]string) bool {
	for key, value := range wanted {
		if is, there := has[key]; !there || is != value {
			return false
		}
	}
	return true
}

// typeOf is the type of a component: its label's, or else that of the first rule that
// fits; ruled says that it is a rule's. "" is none.
func (c Conventions) typeOf(namespace, name string, labels map[string]string) (kind string, ruled bool) {
	if kind := labels[c.Names.Type()]; kind != "" {
		return kind, false
	}
	for _, r := range c.Components {
		if r.fits(namespace, name, labels) {
			return r.Type, true
		}
	}
	return "", false
}
