package config

import (
	"fmt"
	"strings"
)

// Values of haconfig.via.
const (
	HAViaFloatingIP = "floating-ip"
	HAViaEndpoints  = "endpoints"
)

// HAConfig is the section of deployed components. Nothing of it is looked at,
// opened or started while neither Kubeconfig nor InCluster is set.
type HAConfig struct {
	Kubeconfig   string
	InCluster    bool // the peer is a pod of the cluster
	Listen       string
	Prefix       string
	NotReady     int // seconds; -1: none
	Unreachable  int // likewise
	Strict       []string
	Registration string
	Via          string
	Namespace    string
	Service      string
	Namespaces   []string // see Rules
	Budgets      bool
}

// On reports whether there is anything to do.
func (h HAConfig) On() bool { return h.Kubeconfig != "" || h.InCluster }

func haconfigOptions() []Option {
	return []Option{
		{Key: "haconfig.kubeconfig", Change: AtRestart, Extent: MostHosts, rule: orEmpty(absolutePath(maxText)), field: func(c *Config) any { return &c.HAConfig.Kubeconfig },
			Help: "Absolute path of a kubeconfig of the cluster whose components are looked after; 'trivet haconfig manifest' prints the rights it needs. Empty, and in_cluster false: off."},
		{Key: "haconfig.in_cluster", Change: AtRestart, Extent: MostHosts, Default: "false", field: func(c *Config) any { return &c.HAConfig.InCluster },
			Help: "Whether this peer runs as a pod of that cluster, and has its service account."},
		{Key: "haconfig.listen", Change: AtRestart, Extent: MostHosts, Default: ":9443", rule: listenAddress(), field: func(c *Config) any { return &c.HAConfig.Listen },
			Help: "Where this peer answers the API server. The port is the same on all peers."},
		{Key: "haconfig.prefix", Change: AtRestart, Extent: AllHosts, Default: "high-availability-config.resources.gardener.cloud/", rule: labelPrefix(), field: func(c *Config) any { return &c.HAConfig.Prefix },
			Help: "How the labels and annotations begin. The default is Gardener's."},
		{Key: "haconfig.default_not_ready_toleration_seconds", Change: AtRestart, Extent: AllHosts, Default: "-1", rule: number(-1, maxToleration), field: func(c *Config) any { return &c.HAConfig.NotReady },
			Help: "How long pods stay on a kube node that is not ready, where they do not say it themselves. -1: nothing is added."},
		{Key: "haconfig.default_unreachable_toleration_seconds", Change: AtRestart, Extent: AllHosts, Default: "-1", rule: number(-1, maxToleration), field: func(c *Config) any { return &c.HAConfig.Unreachable },
			Help: "The same, for a kube node that cannot be reached."},
		{Key: "haconfig.strict", Change: AtRestart, Extent: AllHosts, rule: pairs("quirks (replicas, selector, autoscaler, zones)", isQuirk), field: func(c *Config) any { return &c.HAConfig.Strict },
			Help: "Which quirks of the original are taken out: replicas refuses overrides that are no count, selector answers 422 for a StatefulSet without one, autoscaler never lets a maximum be below the minimum, zones trims blanks."},
		{Key: "haconfig.registration", Change: AtRestart, Extent: AllHosts, Default: "trivet-haconfig", rule: kubeName(), field: func(c *Config) any { return &c.HAConfig.Registration },
			Help: "Name of the MutatingWebhookConfiguration into which the leader puts the cluster's CA."},
		{Key: "haconfig.via", Change: AtRestart, Extent: AllHosts, Default: HAViaFloatingIP, rule: oneOf(HAViaFloatingIP, HAViaEndpoints), field: func(c *Config) any { return &c.HAConfig.Via },
			Help: "How the API server reaches the peers: at the floating IP, or by a Service whose EndpointSlice the leader keeps."},
		{Key: "haconfig.namespace", Change: AtRestart, Extent: AllHosts, Default: "trivet", rule: kubeName(), field: func(c *Config) any { return &c.HAConfig.Namespace },
			Help: "Namespace of that Service."},
		{Key: "haconfig.service", Change: AtRestart, Extent: AllHosts, Default: "trivet-haconfig", rule: kubeName(), field: func(c *Config) any { return &c.HAConfig.Service },
			Help: "Its name, and that of the EndpointSlice."},
		{Key: "haconfig.namespaces", Change: AtRestart, Extent: AllHosts, rule: pairs(namespaceRuleForm, isNamespaceRule), field: func(c *Config) any { return &c.HAConfig.Namespaces },
			Help: "Which namespaces the leader annotates, and with what; of a namespace the first rule counts whose name and labels fit. A '*' ends a name of which only the beginning is meant. As in 'name=shop-* tolerance=zone zones=a+b+c+d'; docs/haconfig.md has the words."},
		{Key: "haconfig.disruption_budgets", Change: AtRestart, Extent: AllHosts, Default: "false", field: func(c *Config) any { return &c.HAConfig.Budgets },
			Help: "Whether the leader gives each labelled component a PodDisruptionBudget that lets one pod go at a time, where nobody else has made one."},
	}
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
	switch item {
	case QuirkReplicas, QuirkSelector, QuirkAutoscaler, QuirkZones:
		return true
	}
	return false
}

// labelPrefix follows Kubernetes' keys of labels: a DNS name and a slash.
func labelPrefix() rule {
	return rule{text: "DNS name and '/'", check: func(v any) *fault {
		text := v.(string)
		name, found := strings.CutSuffix(text, "/")
		if !found || name == "" || len(name) > 253 || strings.Trim(name, kubeLetters+".") != "" || strings.Trim(name, "-.") != name {
			return &fault{fmt.Sprintf("%.80q is no prefix of labels", text), "write a DNS name in small letters and a '/', as in ha.example.org/"}
		}
		return nil
	}}
}

// checkHAConfig finds values of the section that are wrong together.
func (c Config) checkHAConfig() Problems {
	var problems Problems
	if h := c.HAConfig; h.Kubeconfig != "" && h.InCluster {
		problems = append(problems, Problem{Where: c.Origin("haconfig.in_cluster"), Key: "haconfig.in_cluster", What: "there is haconfig.kubeconfig too", Do: "remove one of the two"})
	}
	return problems
}
