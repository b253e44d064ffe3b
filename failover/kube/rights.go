package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// pathReview is where an API server says what the caller may do.
const pathReview = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

// accessReview asks an API server whether the caller has a right: a SelfSubjectAccessReview.
type accessReview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       need   `json:"spec"`
	Status     struct {
		Allowed bool `json:"allowed"`
	} `json:"status"`
}

// need is a right: one of the two.
type need struct {
	Resource *resourceNeed `json:"resourceAttributes,omitempty"`
	Path     *pathNeed     `json:"nonResourceAttributes,omitempty"`
}

type resourceNeed struct {
	Namespace string `json:"namespace,omitempty"`
	Verb      string `json:"verb"`
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource"`
}

type pathNeed struct {
	Path string `json:"path"`
	Verb string `json:"verb"`
}

// role is a Role of the manifest, or a ClusterRole, which has no namespace.
type role struct {
	Metadata struct {
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Rules []policyRule `json:"rules"`
}

type policyRule struct {
	Verbs           []string `json:"verbs"`
	APIGroups       []string `json:"apiGroups"`
	Resources       []string `json:"resources"`
	NonResourceURLs []string `json:"nonResourceURLs"`
}

// Missing asks the cluster for every right that the manifest gives, and returns
// those that it does not grant, as in "patch nodes" and "list leases in
// kube-node-lease". All questions together take at most the cluster's timeout.
func (c *Cluster) Missing(ctx context.Context) ([]string, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	needs, err := needs()
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, n := range needs {
		granted, err := c.review(ctx, n)
		if err != nil {
			return nil, ask{verb: "create", resource: "selfsubjectaccessreviews.authorization.k8s.io"}.failed(ctx, err)
		}
		if !granted {
			missing = append(missing, inWords(n))
		}
	}
	return missing, nil
}

func (c *Cluster) review(ctx context.Context, n need) (bool, error) {
	review := accessReview{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview", Spec: n}
	body, err := json.Marshal(review)
	if err != nil {
		return false, err
	}
	answer, err := c.core.Post().AbsPath(pathReview).SetHeader("Content-Type", "application/json").SetHeader("Accept",
		"application/json").Body(body).DoRaw(ctx)
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(answer, &review); err != nil {
		return false, fmt.Errorf("decode response to %s: %w", pathReview, err)
	}
	return review.Status.Allowed, nil
}

// inWords is a right as people write it.
func inWords(n need) string {
	if path := n.Path; path != nil {
		return path.Verb + " " + path.Path
	}
	r := n.Resource
	text := r.Verb + " " + r.Resource
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// needs reads the rights from the manifest, so that there is one list of them.
func needs() (out []need, err error) {
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(rights), len(rights))
	for {
		var role role
		if err := documents.Decode(&role); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("the manifest: %w", err)
		}
		for _, rule := range role.Rules {
			out = append(out, asked(role.Metadata.Namespace, rule)...)
		}
	}
}

// asked are the questions of one rule.
func asked(namespace string, rule policyRule) (out []need) {
	for _, verb := range rule.Verbs {
		for _, path := range rule.NonResourceURLs {
			out = append(out, need{Path: &pathNeed{path, verb}})
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				out = append(out, need{Resource: &resourceNeed{namespace, verb, group, resource}})
			}
		}
	}
	return out
}
