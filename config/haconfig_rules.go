package config

import (
	"fmt"
	"slices"
	"strings"
)

// NamespaceRule is what namespaces of components are to have.
type NamespaceRule struct {
	Name      string            // a '*' at its end stands for anything; "": any name
	Labels    map[string]string // that they have
	Consider  bool
	Tolerance *string // nil: not written
	Zones     []string
	Pinning   *bool // nil: not written
}

// Rules are those of haconfig.namespaces, in their order. The configuration was
// checked.
func (h HAConfig) Rules() []NamespaceRule {
	var out []NamespaceRule
	for _, item := range h.Namespaces {
		if r, err := parseNamespaceRule(item); err == nil {
			out = append(out, r)
		}
	}
	return out
}

const namespaceRuleForm = "rules: name=NAME label=KEY=VALUE tolerance=… zones=A+B+C pinning=… consider=…"

func isNamespaceRule(item string) bool {
	_, err := parseNamespaceRule(item)
	return err == nil
}

// parseNamespaceRule reads words with spaces between. Zones are joined by '+': items
// of a list in a variable have commas between.
func parseNamespaceRule(item string) (NamespaceRule, error) {
	r := NamespaceRule{Consider: true}
	seen := map[string]bool{}
	for word := range strings.FieldsSeq(item) {
		key, value, found := strings.Cut(word, "=")
		if !found || seen[key] && key != "label" {
			return r, fmt.Errorf("%q", word)
		}
		seen[key] = true
		if !r.take(key, value) {
			return r, fmt.Errorf("%q", word)
		}
	}
	switch {
	case r.Name == "" && len(r.Labels) == 0:
		return r, fmt.Errorf("no name and no label")
	case r.Tolerance != nil && len(r.Zones) == 0, r.Pinning != nil && *r.Pinning && len(r.Zones) == 0:
		return r, fmt.Errorf("no zones")
	}
	return r, nil
}

// take reads one word.
func (r *NamespaceRule) take(key, value string) bool {
	yes := value == "true"
	switch key {
	case "name":
		stem := strings.TrimSuffix(value, "*")
		r.Name = value
		return value != "" && len(value) <= 63 && strings.Trim(stem, kubeLetters) == "" && !strings.HasPrefix(stem, "-")
	case "label":
		name, is, found := strings.Cut(value, "=")
		if r.Labels == nil {
			r.Labels = map[string]string{}
		}
		r.Labels[name] = is
		return found && name != ""
	case "tolerance":
		r.Tolerance = &value
		return slices.Contains([]string{"", "node", "zone"}, value)
	case "zones":
		r.Zones = strings.Split(value, "+")
		for i, zone := range r.Zones {
			if !isZone(zone) || slices.Contains(r.Zones[:i], zone) {
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

// isZone accepts what can be the value of a label.
func isZone(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return name != "" && len(name) <= 63 && strings.Trim(name, letters+"-_.") == "" && strings.Trim(name, "-_.") == name
}
