package config

import (
	"fmt"
	"slices"
	"strings"
)

// Values of haconfig.via.
const (
	HAViaFloatingIP = "floating-ip"
	HAViaEndpoints  = "endpoints"
)

// HAConfig is the section of deployed components. Nothing of it is looked at,
// opened or started while it names no cluster.
type HAConfig struct {
	Kubeconfigs  []string `key:"kubeconfigs"` // NAME=PATH each
	InCluster    string   `key:"in_cluster"`  // name of the cluster in which this peer is a pod; "": it is none
	Listen       string   `key:"listen"`
	Prefix       string   `key:"prefix"`
	NotReady     int      `key:"default_not_ready_toleration_seconds"`   // seconds; -1: none
	Unreachable  int      `key:"default_unreachable_toleration_seconds"` // likewise
	Strict       []string `key:"strict"`
	Registration string   `key:"registration"`
	Via          string   `key:"via"`
	Namespace    string   `key:"namespace"`
	Service      string   `key:"service"`
	Namespaces   []string `key:"namespaces"` // see Rules
	Components   []string `key:"components"` // see ComponentRules
	Budgets      bool     `key:"disruption_budgets"`
}

// On reports whether there is anything to do.
func (h HAConfig) On() bool { return len(h.Clusters()) > 0 }

// Clusters lists the clusters whose components are looked after, in the order of
// the configuration.
func (h HAConfig) Clusters() []KubeCluster { return kubeClusters(h.Kubeconfigs, h.InCluster) }

var haconfigOptions = []Option{
	{Key: "haconfig.kubeconfigs", Change: AtRestart, Extent: MostHosts, rule: kubeconfigs(),
		Help: "Clusters whose components are looked after, each a name of your own and the absolute path of a kubeconfig, as in prod=/etc/trivet/components.kubeconfig. The same names on every peer; 'trivet haconfig manifest' prints the rights they need. Empty, and in_cluster too: off."},
	{Key: "haconfig.in_cluster", Change: AtRestart, Extent: MostHosts, rule: orEmpty(namedCluster()),
		Help: "Name for the cluster in which this peer itself runs as a pod, if its components are looked after."},
	{Key: "haconfig.listen", Change: AtRestart, Extent: MostHosts, Default: ":9443", rule: listenAddress(),
		Help: "Where this peer answers the API server. The port is the same on all peers. Without an address it answers at the floating IP, too."},
	{Key: "haconfig.prefix", Change: AtRestart, Extent: AllHosts,
		Default: "high-availability-config.resources.gardener.cloud/", rule: labelPrefix(),
		Help: "How the labels and annotations begin. The default is Gardener's."},
	{Key: "haconfig.default_not_ready_toleration_seconds", Change: AtRestart, Extent: AllHosts, Default: "-1",
		rule: number(-1, maxToleration),
		Help: "How long pods stay on a kube node that is not ready, where they do not say it themselves. -1: nothing is added."},
	{Key: "haconfig.default_unreachable_toleration_seconds", Change: AtRestart, Extent: AllHosts, Default: "-1",
		rule: number(-1, maxToleration),
		Help: "The same, for a kube node that cannot be reached."},
	{Key: "haconfig.strict", Change: AtRestart, Extent: AllHosts,
		rule: pairs("quirks (replicas, selector, autoscaler, zones)", isQuirk),
		Help: "Which quirks of the original are taken out: replicas refuses overrides that are no count, selector answers 422 for a StatefulSet without one, autoscaler never lets a maximum be below the minimum, zones trims blanks."},
	{Key: "haconfig.registration", Change: AtRestart, Extent: AllHosts, Default: "trivet-haconfig", rule: kubeName(),
		Help: "Name of the MutatingWebhookConfiguration into which the leader puts the cluster's CA."},
	{Key: "haconfig.via", Change: AtRestart, Extent: AllHosts, Default: HAViaFloatingIP,
		rule: oneOf(HAViaFloatingIP, HAViaEndpoints),
		Help: "How the API server reaches the peers: at the floating IP, or by a Service whose EndpointSlice the leader keeps."},
	{Key: "haconfig.namespace", Change: AtRestart, Extent: AllHosts, Default: "trivet", rule: kubeName(),
		Help: "Namespace of that Service."},
	{Key: "haconfig.service", Change: AtRestart, Extent: AllHosts, Default: "trivet-haconfig", rule: kubeName(),
		Help: "Its name, and that of the EndpointSlice."},
	{Key: "haconfig.namespaces", Change: AtRestart, Extent: AllHosts,
		rule: pairs(namespaceRuleForm, parsed(parseNamespaceRule)),
		Help: "Which namespaces the leader annotates, and with what; of a namespace the first rule counts whose cluster, name and labels fit. A '*' ends a name of which only the beginning is meant. As in 'name=shop-* tolerance=zone zones=a+b+c+d'; without zones they are those of the cluster's Nodes. docs/haconfig.md has the words."},
	{Key: "haconfig.components", Change: AtRestart, Extent: AllHosts,
		rule: pairs(componentRuleForm, parsed(ParseComponentRule)),
		Help: "What components are that have no label type: controller, server, or observability, of which there is one replica. The first rule counts whose words all fit, as in 'namespace=monitoring label=app.kubernetes.io/name=prometheus type=observability'."},
	{Key: "haconfig.disruption_budgets", Change: AtRestart, Extent: AllHosts, Default: "false",
		Help: "Whether the leader gives each component that has a label type, or a rule of haconfig.components, a PodDisruptionBudget that lets one pod go at a time, unless another client has made one."},
}

// maxToleration is ten years, in seconds.
const maxToleration = 10 * 365 * 24 * 3600

// Quirks of the original that can be taken out.
const (
	QuirkReplicas   = "replicas"
	QuirkSelector   = "selector"
	QuirkAutoscaler = "autoscaler"
	QuirkZones      = "zones"
)

func isQuirk(item string) bool {
	return slices.Contains([]string{QuirkReplicas, QuirkSelector, QuirkAutoscaler, QuirkZones}, item)
}

// labelPrefix follows Kubernetes' keys of labels: a DNS name and a slash.
func labelPrefix() rule {
	return form("DNS name and '/'", func(text string) bool {
		name, found := strings.CutSuffix(text, "/")
		return found && isName(name, kubeLetters+".", "-.", 253)
	}, "is no prefix of labels", "write a DNS name in small letters and a '/', as in ha.example.org/")
}

// namedCluster is kubeName without the truth values that the option once had.
func namedCluster() rule {
	r := kubeName()
	judge := r.check
	r.check = func(v any) *fault {
		if v == "true" || v == "false" {
			return &fault{fmt.Sprintf("%q is not taken for the name of a cluster", v), "write a name of your own, as in prod"}
		}
		return judge(v)
	}
	return r
}

// checkHAConfig finds values of the section that are wrong together.
func (r *review) checkHAConfig() {
	h := r.HAConfig
	r.checkClusterNames("haconfig", h.Clusters())
	known := make(map[string]bool)
	for _, cluster := range h.Clusters() {
		known[cluster.Name] = true
	}
	unknown := func(key, cluster string) {
		r.when(cluster != "" && h.On() && !known[cluster], key,
			fmt.Sprintf("a rule is for cluster %q, and no cluster has that name", cluster),
			"write a name of haconfig.kubeconfigs or haconfig.in_cluster")
	}
	for _, item := range h.Namespaces {
		if r, err := parseNamespaceRule(item); err == nil {
			unknown("haconfig.namespaces", r.Cluster)
		}
	}
	for _, item := range h.Components {
		if r, err := ParseComponentRule(item); err == nil {
			unknown("haconfig.components", r.Cluster)
		}
	}
}
