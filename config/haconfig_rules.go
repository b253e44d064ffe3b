package config

import (
	"fmt"
	"slices"
	"strings"
)

// NamespaceRule is what namespaces of components are to have.
type NamespaceRule struct {
	Cluster   string            // in which they are; "": in any
	Name      string            // a '*' at its end stands for anything; "": any name
	Labels    map[string]string // that they have
	Consider  bool
	Tolerance *string // nil: not written
	Zones     []string
	FromNodes bool  // the rule says nothing of zones: they are those of the Nodes
	Pinning   *bool // nil: not written
}

// Rules are those of haconfig.namespaces for a cluster, in their order. The
// configuration was checked.
func (h HAConfig) Rules(cluster string) []NamespaceRule {
	return rulesFor(cluster, h.Namespaces, parseNamespaceRule, func(r NamespaceRule) string { return r.Cluster })
}

func rulesFor[R any](cluster string, items []string, parse func(string) (R, error), of func(R) string) (out []R) {
	for _, item := range items {
		if r, err := parse(item); err == nil && (of(r) == "" || of(r) == cluster) {
			out = append(out, r)
		}
	}
	return out
}

const namespaceRuleForm = "rules: cluster=CLUSTER name=NAME label=KEY=VALUE tolerance=… zones=A+B+C pinning=… consider=…"

// parseNamespaceRule reads words with spaces between. Zones are joined by '+': items
// of a list in a variable have commas between.
func parseNamespaceRule(item string) (NamespaceRule, error) {
	r := NamespaceRule{Consider: true}
	seen, err := eachWord(item, r.readWord)
	if err != nil {
		return r, err
	}
	r.FromNodes = r.Consider && !seen["zones"]
	known := len(r.Zones) > 0 || r.FromNodes
	switch {
	case r.Name == "" && len(r.Labels) == 0:
		return r, fmt.Errorf("no name and no label")
	case r.Tolerance != nil && !known, r.Pinning != nil && *r.Pinning && !known:
		return r, fmt.Errorf("no zones")
	}
	return r, nil
}

// eachWord has each KEY=VALUE of a rule taken, and returns the keys. Only label may be
// there more than once.
func eachWord(item string, take func(key, value string) bool) (seen map[string]bool, err error) {
	seen = map[string]bool{}
	for word := range strings.FieldsSeq(item) {
		key, value, found := strings.Cut(word, "=")
		if !found || seen[key] && key != "label" || !take(key, value) {
			return nil, fmt.Errorf("%q", word)
		}
		seen[key] = true
	}
	return seen, nil
}

// readWord reads one word.
func (r *NamespaceRule) readWord(key, value string) bool {
	yes := value == "true"
	switch key {
	case "cluster":
		r.Cluster = value
		return isKubeName(value)
	case "name":
		r.Name = value
		return isKubePattern(value)
	case "label":
		return takeLabel(&r.Labels, value)
	case "tolerance":
		r.Tolerance = &value
		return slices.Contains([]string{"", "node", "zone"}, value)
	case "zones":
		if value == "" {
			return true // none, wherever the Nodes are
		}
		r.Zones = strings.Split(value, "+")
		for i, zone := range r.Zones {
			if !isName(zone, alphanumeric+"-_.", "-_.", 63) || // the value of a label
				slices.Contains(r.Zones[:i], zone) {
				return false
			}
		}
		return len(r.Zones) <= maxList
	case "pinning":
		r.Pinning = &yes
		return yes || value == "false"
	case "consider":
		r.Consider = yes
		return yes || value == "false"
	}
	return false
}

// isKubePattern accepts a name of a namespace, or how it begins with a '*' after that.
func isKubePattern(value string) bool {
	stem := strings.TrimSuffix(value, "*")
	return value != "" && len(value) <= 63 && strings.Trim(stem, kubeLetters) == "" && !strings.HasPrefix(stem, "-")
}

// takeLabel reads KEY=VALUE of a label.
func takeLabel(labels *map[string]string, value string) bool {
	name, is, found := strings.Cut(value, "=")
	if *labels == nil {
		*labels = map[string]string{}
	}
	(*labels)[name] = is
	return found && name != ""
}

// Types of components that a rule may name. TypeObservability is no value of the
// label: there any text that is not known means a server.
const (
	TypeController    = "controller"
	TypeServer        = "server"
	TypeObservability = "observability"
)

// ComponentRule says what components are that have no label type. All words that are
// there must fit.
type ComponentRule struct {
	Cluster   string            // "": any
	Namespace string            // a '*' at its end stands for anything; "": any
	Name      string            // likewise
	Labels    map[string]string // of the component
	Type      string
}

const componentRuleForm = "rules: cluster=CLUSTER namespace=NAME name=NAME label=KEY=VALUE type=controller|server|observability"

// ComponentRules are those of haconfig.components for a cluster, in their order. The
// configuration was checked.
func (h HAConfig) ComponentRules(cluster string) []ComponentRule {
	return rulesFor(cluster, h.Components, ParseComponentRule, func(r ComponentRule) string { return r.Cluster })
}

// ParseComponentRule reads an item of haconfig.components.
func ParseComponentRule(item string) (ComponentRule, error) {
	var r ComponentRule
	if _, err := eachWord(item, r.readWord); err != nil {
		return r, err
	}
	switch {
	case r.Namespace == "" && r.Name == "" && len(r.Labels) == 0:
		return r, fmt.Errorf("no namespace, name or label")
	case r.Type == "":
		return r, fmt.Errorf("no type")
	}
	return r, nil
}

// readWord reads one word.
func (r *ComponentRule) readWord(key, value string) bool {
	switch key {
	case "cluster":
		r.Cluster = value
		return isKubeName(value)
	case "namespace":
		r.Namespace = value
		return isKubePattern(value)
	case "name":
		stem := strings.TrimSuffix(value, "*")
		r.Name = value
		return value != "" && len(value) <= 253 && strings.Trim(stem, kubeLetters+".") == ""
	case "label":
		return takeLabel(&r.Labels, value)
	case "type":
		r.Type = value
		return slices.Contains([]string{TypeController, TypeServer, TypeObservability}, value)
	}
	return false
}
