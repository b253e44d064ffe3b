package kube

import (
	_ "embed"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/trivet-ha/trivet/haconfig"
)

// Ways in which the API server reaches the webhook.
const (
	ViaFloatingIP = "floating-ip" // the address that the leader holds
	ViaEndpoints  = "endpoints"   // a Service whose endpoints the leader keeps
)

// ManifestOptions say what is registered. What has no comment is required.
type ManifestOptions struct {
	Cluster      string // its name; "": the only one
	Via          string
	Address      string // with ViaFloatingIP
	Port         int
	Namespace    string // of our service account, and of the Service
	Registration string // name of the MutatingWebhookConfiguration
	Service      string
	Names        haconfig.Names
	Exclude      []string // namespaces besides those that always are
	Annotates    bool     // the leader annotates namespaces
	Budgets      bool     // the leader keeps disruption budgets
}

//go:embed manifest/rights.yaml
var rights string

//go:embed manifest/registration.yaml
var registration string

//go:embed manifest/service.yaml
var service string

// Never lists namespaces whose objects are never reviewed, besides ours: kubelets and
// the API server need them before anything else.
func Never() []string { return []string{"kube-node-lease", "kube-public"} }

// Manifest returns what an operator applies to a cluster so that its API server asks
// us, and we may do what is needed for that and nothing else, in YAML with
// comments. Names must be what Kubernetes takes for one; they are not checked.
func Manifest(o ManifestOptions) string {
	client := "service: {namespace: NAMESPACE, name: SERVICE, port: PORT, path: PATH}"
	text := rights + registration
	if o.Via == ViaEndpoints {
		text = rights + service + registration
	} else {
		client = fmt.Sprintf("url: https://%sPATH", net.JoinHostPort(o.Address, strconv.Itoa(o.Port)))
	}
	for mark, keep := range map[string]bool{"endpoints": o.Via == ViaEndpoints, "namespaces": o.Annotates,
		"budgets": o.Budgets} {
		text = optional(text, mark, keep)
	}
	path := haconfig.PathMutate
	if o.Cluster != "" {
		path = haconfig.ReviewPath(o.Cluster)
	}
	excluded := slices.Concat([]string{o.Namespace}, Never(), o.Exclude)
	return strings.NewReplacer("CLIENT",
		strings.NewReplacer("NAMESPACE", o.Namespace, "SERVICE", o.Service, "PORT", strconv.Itoa(o.Port), "PATH",
			path).Replace(client),
		"NAMESPACE", o.Namespace, "SERVICE", o.Service, "PORT", strconv.Itoa(o.Port), "REGISTRATION", o.Registration,
		"CONSIDER", o.Names.Consider(), "SKIP", o.Names.Skip(), "EXCLUDED", strings.Join(slices.Compact(excluded), ", "),
	).Replace(text)
}

// optional keeps the lines between "#if mark" and "#end", or drops them.
func optional(text, mark string, keep bool) string {
	var out strings.Builder
	within := false
	for line := range strings.Lines(text) {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "#if "+mark:
			within = true
		case within && trimmed == "#end":
			within = false
		case !within || keep:
			out.WriteString(line)
		}
	}
	return out.String()
}
