package kube

import (
	_ "embed"
	"strings"
)

// ManifestOptions say for whom the manifest is.
type ManifestOptions struct {
	// Namespace is where our service account lives. "" means trivet.
	Namespace string
	// InCluster adds the example of peers that run as pods; without it there is a
	// token for those that run outside.
	InCluster bool
	// Image is what such pods run, "" for one to be filled in.
	Image string
}

//go:embed manifest/rights.yaml
var rights string

//go:embed manifest/token.yaml
var token string

//go:embed manifest/peers.yaml
var peers string

// Manifest returns what an operator applies to a cluster so that we may do there
// what failover needs, and nothing else, in YAML with comments. Namespace and image
// must be what Kubernetes takes for one; they are not checked.
func Manifest(o ManifestOptions) string {
	if o.Namespace == "" {
		o.Namespace = "trivet"
	}
	if o.Image == "" {
		o.Image = "registry.example.org/trivet:VERSION # put yours"
	}
	text := rights + token
	if o.InCluster {
		text = rights + peers
	}
	return strings.NewReplacer("NAMESPACE", o.Namespace, "IMAGE", o.Image).Replace(text)
}
