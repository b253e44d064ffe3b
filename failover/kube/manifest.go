package kube

import (
	_ "embed"
	"strings"
)

// ManifestOptions say for whom the manifest is.
type ManifestOptions struct {
	// Namespace is where our service account lives. "" means trivet.
	Namespace string
	// InCluster leaves out the token for peers that run outside.
	InCluster bool
}

//go:embed manifest/rights.yaml
var rights string

//go:embed manifest/token.yaml
var token string

// Manifest returns what an operator applies to a cluster so that we may do there
// what failover needs, and nothing else, in YAML with comments. Namespace must be
// what Kubernetes takes for one; it is not checked.
func Manifest(o ManifestOptions) string {
	if o.Namespace == "" {
		o.Namespace = "trivet"
	}
	text := rights
	if !o.InCluster {
		text += token
	}
	return strings.ReplaceAll(text, "NAMESPACE", o.Namespace)
}
