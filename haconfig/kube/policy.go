package kube

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/haconfig"
)

//go:embed manifest/policy.yaml
var policy string

//go:embed manifest/policy_variables.yaml
var policyVariables string

// PolicyOptions say what policies are made of.
type PolicyOptions struct {
	Name        string   // how the names of the policies and their bindings begin
	Exclude     []string // namespaces besides those that always are
	Conventions haconfig.Conventions
}

// Policy returns the conventions as admission policies, which an API server evaluates
// without a webhook, in YAML with comments. It needs Kubernetes 1.36. Names must be what
// Kubernetes takes for one; they are not checked.
func Policy(o PolicyOptions) string {
	e, names := o.Conventions.Expressions(), o.Conventions.Names
	text := strings.ReplaceAll(policy, "COMMON\n", policyVariables)
	text = optional(text, "tolerations", e.Tolerates != "")
	return strings.NewReplacer(
		"REGISTRATION", o.Name, "EXCLUDED", strings.Join(slices.Concat(Never(), o.Exclude), ", "),
		"CONSIDER", names.Consider(), "SKIP", names.Skip(), "TOLERANCE", names.Tolerance(), "PINNING", names.Pinning(),
		"HOSTSPREAD", names.HostSpread(), "REPLICAS", names.Replicas(), "TRUE", `["1", "t", "T", "TRUE", "true", "True"]`,
		"ZONES", e.Zones, "KIND", e.Kind, "WANTED", e.Wanted, "LARGEST", e.Largest, "KEYS", e.Keys, "SPREAD", e.Spread,
		"TOLERATES", e.Tolerates, "PODTEMPLATE", `"pod-template-hash"`,
		"CONSTRAINTS", `"/spec/template/spec/topologySpreadConstraints/"`,
	).Replace(text)
}
