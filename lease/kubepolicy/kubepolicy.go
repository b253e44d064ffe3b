// Package kubepolicy has a Kubernetes API server refuse writes under an old fencing
// token: it makes a ValidatingAdmissionPolicy, which the API server evaluates on the
// object that it is about to store, with the object that it has. So the comparison
// and the write are one step, which no client can do by itself.
package kubepolicy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Annotation is where a writer shows its fencing token, a decimal number.
const Annotation = "trivet.dev/fencing-token"

// Options say what a lease protects.
type Options struct {
	Lease     string   // its name; for messages, and for the policy's name
	Name      string   // of the policy and its binding; "": made from Lease
	Selector  string   // of labels, as kubectl has it; it must select something
	Resources []string // as kubectl names them: "configmaps", "deployments.apps"
	Namespace string   // where the objects are; "": everywhere
}

// Errors of Manifest.
var (
	errNoLease    = errors.New("no lease is named")
	errNoSelector = errors.New(
		"no label selects the objects: the policy would refuse every other writer of these resources")
	errNoResources = errors.New("no resources are named")
)

// Manifest returns the policy and its binding as YAML, for kubectl apply. It needs
// Kubernetes 1.30 or newer.
func Manifest(o Options) ([]byte, error) {
	match, err := o.match()
	if err != nil {
		return nil, err
	}
	name, err := o.name()
	if err != nil {
		return nil, err
	}
	binding := object{
		"apiVersion": apiVersion, "kind": "ValidatingAdmissionPolicyBinding", "metadata": object{"name": name},
		"spec": object{"policyName": name, "validationActions": []string{"Deny"}},
	}
	var out bytes.Buffer
	for _, one := range []object{o.policy(name, match), binding} {
		text, err := yaml.Marshal(one)
		if err != nil {
			return nil, fmt.Errorf("encode policy: %w", err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes(), nil
}

// apiVersion is that of both objects.
const apiVersion = "admissionregistration.k8s.io/v1"

// object is an object of Kubernetes, or a part of one, as kubectl reads it. It is a map, since the
// package that has the types of the API links 400 kB.
type object map[string]any

func (o Options) policy(name string, match object) object {
	return object{
		"apiVersion": apiVersion, "kind": "ValidatingAdmissionPolicy",
		"metadata": object{"name": name, "annotations": object{"trivet.dev/lease": o.Lease}},
		"spec": object{
			"failurePolicy":    "Fail",
			"matchConstraints": match,
			"variables": []object{
				{"name": "token", "expression": tokenOf("object")},
				{"name": "before", "expression": "oldObject == null ? '' : " + tokenOf("oldObject")},
			},
			"validations": []object{
				{
					"expression": "variables.token." + isToken, "reason": meta.StatusReasonInvalid,
					"message": fmt.Sprintf(
						"the annotation %s must hold the fencing token of the lease %q under which this object is written", Annotation,
						o.Lease),
				},
				{
					"expression": "!variables.before." + isToken + " || " + notOlder, "reason": meta.StatusReasonForbidden,
					"messageExpression": fmt.Sprintf(
						"'fencing token ' + variables.token + ' is older than ' + variables.before + ', under which this object was written: the lease \"%s\" was granted again'",
						o.Lease),
				},
			},
		},
	}
}

// Parts of the policy's expressions, in CEL. Tokens are compared as texts: of two
// decimal numbers without leading zeros the longer one is the greater, and CEL's
// integers end before 20 digits do.
const (
	isToken  = "matches('^[1-9][0-9]{0,19}$')"
	notOlder = "size(variables.token) > size(variables.before) || size(variables.token) == size(variables.before) && variables.token >= variables.before"
)

// tokenOf is the token of an object, the empty string if it has none.
func tokenOf(object string) string {
	return fmt.Sprintf("%s.metadata.?annotations[?'%s'].orValue('')", object, Annotation)
}

func (o Options) name() (string, error) {
	name := o.Name
	if name == "" {
		name = "trivet-lease-" + o.Lease // lower-case letters, digits, '-' and '.', as Kubernetes has it
	}
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return "", fmt.Errorf("%q cannot be the name of a policy: %s", name, strings.Join(wrong, "; "))
	}
	return name, nil
}

// match selects the objects. Updates of a subresource, such as the status, change no
// annotation and do not match.
func (o Options) match() (object, error) {
	switch {
	case o.Lease == "":
		return nil, errNoLease
	case len(validation.IsDNS1123Subdomain(o.Lease)) > 0:
		return nil, fmt.Errorf("%q cannot be the name of a lease", o.Lease)
	case o.Selector == "":
		return nil, errNoSelector
	case len(o.Resources) == 0:
		return nil, errNoResources
	}
	selector, err := labelSelector(o.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector %q: %w", o.Selector, err)
	}
	match := object{"objectSelector": selector}
	if o.Namespace != "" {
		if wrong := validation.IsDNS1123Label(o.Namespace); len(wrong) > 0 {
			return nil, fmt.Errorf("namespace %q: %s", o.Namespace, strings.Join(wrong, "; "))
		}
		match["namespaceSelector"] = object{"matchLabels": object{"kubernetes.io/metadata.name": o.Namespace}}
	}
	var rules []object
	for _, r := range o.Resources {
		resource := schema.ParseGroupResource(r)
		if wrong := validation.IsDNS1123Label(resource.Resource); len(wrong) > 0 {
			return nil, fmt.Errorf("resource %q: want RESOURCE or RESOURCE.GROUP, such as configmaps or deployments.apps",
				r)
		}
		rules = append(rules, object{
			"operations": []string{"CREATE", "UPDATE"}, "apiGroups": []string{resource.Group}, "apiVersions": []string{"*"},
			"resources": []string{resource.Resource},
		})
	}
	match["resourceRules"] = rules
	return match, nil
}

// labelSelector is a selector as kubectl has it, in the form of an object.
func labelSelector(text string) (*meta.LabelSelector, error) {
	requirements, err := labels.ParseToRequirements(text)
	if err != nil {
		return nil, err
	}
	var out meta.LabelSelector
	for _, r := range requirements {
		expression := meta.LabelSelectorRequirement{Key: r.Key(), Values: r.ValuesUnsorted()}
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			expression.Operator = meta.LabelSelectorOpIn
		case selection.NotIn, selection.NotEquals:
			expression.Operator = meta.LabelSelectorOpNotIn
		case selection.Exists:
			expression.Operator = meta.LabelSelectorOpExists
		case selection.DoesNotExist:
			expression.Operator = meta.LabelSelectorOpDoesNotExist
		default:
			return nil, fmt.Errorf("%s is not possible in a policy", r.Operator())
		}
		slices.Sort(expression.Values)
		out.MatchExpressions = append(out.MatchExpressions, expression)
	}
	return &out, nil
}
