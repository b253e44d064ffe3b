package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// pathReview is where an API server says what the caller may do.
const pathReview = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

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

func (c *Cluster) review(ctx context.Context, n authorizationv1.SelfSubjectAccessReviewSpec) (bool, error) {
	review := authorizationv1.SelfSubjectAccessReview{Spec: n}
	review.APIVersion, review.Kind = "authorization.k8s.io/v1", "SelfSubjectAccessReview"
	body, err := json.Marshal(review)
	if err != nil {
		return false, err
	}
	answer, err := c.core.Post().AbsPath(pathReview).SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body).DoRaw(ctx)
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(answer, &review); err != nil {
		return false, fmt.Errorf("decode response to %s: %w", pathReview, err)
	}
	return review.Status.Allowed, nil
}

// inWords is a right as people write it.
func inWords(n authorizationv1.SelfSubjectAccessReviewSpec) string {
	if path := n.NonResourceAttributes; path != nil {
		return path.Verb + " " + path.Path
	}
	r := n.ResourceAttributes
	text := r.Verb + " " + r.Resource
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// needs reads the rights from the manifest, so that there is one list of them.
func needs() (out []authorizationv1.SelfSubjectAccessReviewSpec, err error) {
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(rights), len(rights))
	for {
		var role rbacv1.Role // a ClusterRole has the same fields, and no namespace
		if err := documents.Decode(&role); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("the manifest: %w", err)
		}
		for _, rule := range role.Rules {
			out = append(out, asked(role.Namespace, rule)...)
		}
	}
}

// asked are the questions of one rule.
func asked(namespace string, rule rbacv1.PolicyRule) (out []authorizationv1.SelfSubjectAccessReviewSpec) {
	for _, verb := range rule.Verbs {
		for _, path := range rule.NonResourceURLs {
			out = append(out, authorizationv1.SelfSubjectAccessReviewSpec{
				NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
			})
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				out = append(out, authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource},
				})
			}
		}
	}
	return out
}
