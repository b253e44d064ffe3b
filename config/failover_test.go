package config

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// The failoverProblems are about kube nodes.
var failoverProblems = []problemCase{
	{"an unknown mode", "failover: {mode: saf}\n", nil,
		[]string{`trivet.yaml:1: failover.mode: "saf" is not known; did you mean "safe"? One of "", safe, noobaa`}},
	{"safe without anything", "failover: {mode: safe}\n", nil, []string{
		"failover.kubeconfigs: failover.mode safe needs a cluster to watch; write it as in prod=/etc/trivet/prod.kubeconfig",
		"failover.fence_file: failover.mode safe takes the power of machines, and nothing says how",
	}},
	{"noobaa without anything", "failover: {mode: noobaa, in_cluster: here}\n", nil,
		[]string{"failover.noobaa_namespace: failover.mode noobaa needs it"}},
	{"a path alone", "failover: {kubeconfigs: [/etc/x]}\n", nil,
		[]string{`trivet.yaml:1: failover.kubeconfigs: "/etc/x" is not NAME=PATH; write it as NAME=PATH`}},
	{"a relative path", "failover: {kubeconfigs: [prod=x]}\n", nil,
		[]string{`trivet.yaml:1: failover.kubeconfigs: "prod=x" is not NAME=PATH`}},
	{"a slash in a name", "failover: {in_cluster: a/b}\n", nil,
		[]string{`trivet.yaml:1: failover.in_cluster: "a/b" is not a name of Kubernetes`}},
	{"one name for two clusters", "failover:\n  kubeconfigs: [prod=/a, prod=/b]\n", nil,
		[]string{`trivet.yaml:2: failover.kubeconfigs: "prod" names another cluster already`}},
	{"the name of the pod's cluster", "failover:\n  kubeconfigs: [prod=/a]\n  in_cluster: prod\n", nil,
		[]string{`trivet.yaml:3: failover.in_cluster: "prod" names another cluster already`}},
	{"too large a share", "failover: {min_healthy: 101%}\n", nil,
		[]string{
			`trivet.yaml:1: failover.min_healthy: "101%" is neither a number nor a percentage; write it as in 2 or 51%`}},
	{"a share with a sign", "failover: {max_unhealthy: '+1'}\n", nil,
		[]string{`trivet.yaml:1: failover.max_unhealthy: "+1" is neither a number nor a percentage`}},
	{"not ready before the Lease", "failover: {mode: safe, in_cluster: here, fence_file: /f, not_ready_after: 16s}\n", nil,
		[]string{
			"trivet.yaml:1: failover.not_ready_after: 16s is less than failover.lease_age (17s), which it would make pointless; write more, or 0s for never"}},
	{"capitals in a namespace", "failover: {namespaces: [Prod]}\n", nil,
		[]string{`trivet.yaml:1: failover.namespaces: "Prod" is not names of namespaces`}},
}

func TestWarningsAboutFailover(t *testing.T) {
	const safe = "mode: safe, in_cluster: here, fence_file: /f"
	for _, test := range []struct{ yaml, want string }{
		{"failover: {" + safe + "}\n", ""},
		{"failover: {" + safe + ", not_ready_after: 0s}\n", ""},
		{"failover: {mode: noobaa, in_cluster: here, noobaa_namespace: storage}\n",
			"trivet.yaml:1: failover.mode: noobaa FENCES NOTHING"},
		{"failover: {in_cluster: here}\n", "failover.mode: is not written"},
		{"failover: {" + safe + ", lease_age: 14s}\n", "trivet.yaml:1: failover.lease_age: 14s is less than 15s"},
		{"failover: {" + safe + ", noobaa_namespace: storage}\n", "trivet.yaml:1: failover.noobaa_namespace: is not used"},
		{"failover: {" + safe + ", min_healthy: ''}\n", "trivet.yaml:1: failover.min_healthy: is empty"},
		{"failover: {" + safe + ", min_healthy: '', max_unhealthy: '1'}\n", ""},
	} {
		c, problems := load(t, test.yaml)
		var got []string
		for _, w := range c.Warnings() {
			if strings.HasPrefix(w.Key, "failover.") {
				got = append(got, w.String())
			}
		}
		if len(problems) > 0 || (test.want == "") != (len(got) == 0) || len(got) > 1 ||
			len(got) == 1 && !strings.Contains(got[0], test.want) {
			t.Errorf("%s: warnings %q, want %q; problems %v", test.yaml, got, test.want, problems)
		}
	}
}

func TestClustersOfFailover(t *testing.T) {
	c, problems := load(t, "failover: {kubeconfigs: ['b=/etc/b=1', a=/etc/a], in_cluster: here}\n")
	want := []KubeCluster{{"b", "/etc/b=1"}, {"a", "/etc/a"}, {"here", ""}}
	if got := c.Failover.Clusters(); len(problems) > 0 || !slices.Equal(got, want) {
		t.Errorf("clusters %v, want %v; problems %v", got, want, problems)
	}
	if d := Default().Failover; d.Mode != FailoverOff || len(d.Clusters()) > 0 || d.Detection.LeaseAge != 17*time.Second ||
		d.Guard.MinHealthy != "51%" {
		t.Errorf("by default: %+v", d)
	}
}
