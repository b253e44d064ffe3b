package haconfig

import "strings"

// DefaultPrefix begins every label and annotation, unless the configuration names
// another. It is Gardener's, so that what is labelled for it needs no change.
const DefaultPrefix = "high-availability-config.resources.gardener.cloud/"

// Names makes the keys of labels and annotations. Its zero value has no prefix; see
// DefaultPrefix.
type Names struct{ Prefix string }

// Consider is the label, of value true, of namespaces whose components are looked
// after. Only the registration's selector compares it.
func (n Names) Consider() string { return n.Prefix + "consider" }

// Tolerance is the annotation of namespaces that says what must be survived.
func (n Names) Tolerance() string { return n.Prefix + "failure-tolerance-type" }

// Zones is the annotation of namespaces that lists zones.
func (n Names) Zones() string { return n.Prefix + "zones" }

// Pinning is the annotation of namespaces that pins to their zones.
func (n Names) Pinning() string { return n.Prefix + "zone-pinning" }

// Type is the label of objects that names the kind of component.
func (n Names) Type() string { return n.Prefix + "type" }

// Replicas is the annotation of objects that overrides the table.
func (n Names) Replicas() string { return n.Prefix + "replicas" }

// HostSpread is the annotation of objects that enforces spread over hosts.
func (n Names) HostSpread() string { return n.Prefix + "host-spread" }

// Skip is the label, of any value, of objects that are left alone. Only the
// registration's selector looks for it.
func (n Names) Skip() string { return n.Prefix + "skip" }

// ValidPrefix reports whether keys that begin with it can be keys of Kubernetes: a
// DNS name and a slash.
func ValidPrefix(prefix string) bool {
	name, found := strings.CutSuffix(prefix, "/")
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-."
	return found && name != "" && len(name) <= 253 && strings.Trim(name, letters) == "" &&
		!strings.ContainsAny(name[:1]+name[len(name)-1:], "-.")
}
