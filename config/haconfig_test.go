package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestLabelPrefix(t *testing.T) {
	for text, want := range map[string]bool{
		"high-availability-config.resources.gardener.cloud/": true, "a/": true, "a": false, "": false, "/": false,
		"A/": false, "a/b/": false, "-a/": false, "a./": false,
	} {
		if got := labelPrefix().checkValue(text) == nil; got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestNamespaceRules reads rules, and refuses what is none.
func TestNamespaceRules(t *testing.T) {
	h := HAConfig{Namespaces: []string{"name=shop-* label=team=a label=x= tolerance=zone zones=a+b+c pinning=false",
		"name=* tolerance= zones=a", "label=k=v consider=false"}}
	rules := h.Rules("any")
	if len(rules) != 3 || rules[0].FromNodes || rules[2].FromNodes || rules[0].Name != "shop-*" ||
		rules[0].Labels["team"] != "a" || rules[0].Labels["x"] != "" || *rules[0].Tolerance != "zone" ||
		len(rules[0].Zones) != 3 || *rules[0].Pinning ||
		!rules[0].Consider || *rules[1].Tolerance != "" || rules[1].Pinning != nil || rules[2].Consider ||
		rules[2].Tolerance != nil {
		t.Errorf("%+v", rules)
	}
	for _, item := range []string{
		"", "zones=a", "name=", "name=a name=b", "name=A", "name=-a", "name=a*b", "label=x", "label==x",
		"name=a tolerance=host zones=a",
		"name=a tolerance=node zones=", "name=a pinning=true zones=", "name=a tolerance=node consider=false",
		"name=a cluster=", "name=a cluster=A", "name=a zones=a+a", "name=a zones=a+-b", "name=a zones=a/b",
		"name=a pinning=yes zones=a", "name=a consider=1", "name=a other=b", "name=a b",
	} {
		if parsed(parseNamespaceRule)(item) {
			t.Errorf("%q is a rule", item)
		}
	}
}

func TestHAConfigTogether(t *testing.T) {
	c := Default()
	if c.HAConfig.On() || len(reviewed(c, (*review).checkHAConfig)) != 0 {
		t.Error("it is on by itself")
	}
	c.HAConfig.Kubeconfigs, c.HAConfig.InCluster = []string{"a=/x"}, "a"
	if p := reviewed(c, (*review).checkHAConfig); !c.HAConfig.On() || len(p) != 1 || p[0].Key != "haconfig.in_cluster" {
		t.Error(p)
	}
	c.HAConfig.InCluster = "b"
	c.HAConfig.Namespaces, c.HAConfig.Components = []string{"name=x cluster=b", "name=x cluster=c"},
		[]string{"name=x type=server cluster=a", "name=x type=server cluster=d"}
	if p := reviewed(c, (*review).checkHAConfig); len(p) != 2 || p[0].Key != "haconfig.namespaces" ||
		!strings.Contains(p[0].What, `"c"`) || p[1].Key != "haconfig.components" || !strings.Contains(p[1].What, `"d"`) {
		t.Error(p)
	}
	c.HAConfig.Namespaces, c.HAConfig.Components = nil, nil
	c.HAConfig.Listen = c.API.Listen
	if p := reviewed(c, (*review).portConflicts); len(p) != 1 || p[0].Key != "haconfig.listen" ||
		!strings.Contains(p[0].What, "api.listen") {
		t.Error(p)
	}
	for quirk, want := range map[string]bool{QuirkReplicas: true, QuirkSelector: true, QuirkAutoscaler: true,
		QuirkZones: true, "all": false} {
		if isQuirk(quirk) != want {
			t.Error(quirk)
		}
	}
}

// TestRulesOfACluster gives each cluster its own rules and those of all.
func TestRulesOfACluster(t *testing.T) {
	h := HAConfig{
		Kubeconfigs: []string{"seed=/s", "shoot=/t"},
		Namespaces:  []string{"cluster=seed name=garden", "name=shop zones=", "cluster=shoot name=kube-system pinning=true"},
		Components:  []string{"cluster=shoot namespace=kube-* label=a=b type=observability", "name=prometheus* type=server"},
	}
	for cluster, want := range map[string]string{"seed": "garden/true shop/false | prometheus*/server",
		"shoot": "shop/false kube-system/true | /observability prometheus*/server"} {
		var got []string
		for _, r := range h.Rules(cluster) {
			got = append(got, fmt.Sprintf("%s/%v", r.Name, r.FromNodes))
		}
		got = append(got, "|")
		for _, r := range h.ComponentRules(cluster) {
			got = append(got, r.Name+"/"+r.Type)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("rule-of-a-cluster: %s has %s, want %s", cluster, text, want)
		}
	}
	for _, item := range []string{"", "type=server", "name=a", "name=a type=", "name=a type=other", "name=A type=server",
		"namespace=a*b type=server", "label=a type=server", "name=a name=b type=server", "name=a zones=a type=server"} {
		if parsed(ParseComponentRule)(item) {
			t.Errorf("%q is a rule", item)
		}
	}
}

// TestFormOfOneCluster says what to write in its place.
func TestFormOfOneCluster(t *testing.T) {
	for text, want := range map[string]string{
		"haconfig: {kubeconfig: /etc/x}\n":        "trivet.yaml:1: haconfig.kubeconfig: is not an option: each cluster has a name; write haconfig.kubeconfigs: [NAME=PATH], with a name of your own",
		"haconfig: {in_cluster: 'true'}\n":        `haconfig.in_cluster: "true" is not taken for the name of a cluster; write a name of your own`,
		"haconfig: {kubeconfigs: [/etc/x]}\n":     `haconfig.kubeconfigs: "/etc/x" is not NAME=PATH; write it as NAME=PATH`,
		"haconfig: {kubeconfigs: [a=/x, a=/y]}\n": `haconfig.kubeconfigs: "a" names another cluster already`,
	} {
		if _, problems := load(t, text); len(problems) != 1 || !strings.Contains(problems[0].String(), want) {
			t.Errorf("%s: %v, want %s", text, problems, want)
		}
	}
	c, problems := load(t, "haconfig: {kubeconfigs: ['b=/etc/b', a=/etc/a], in_cluster: here}\n")
	if got := c.HAConfig.Clusters(); len(problems) > 0 ||
		!slices.Equal(got, []KubeCluster{{"b", "/etc/b"}, {"a", "/etc/a"}, {"here", ""}}) {
		t.Errorf("%v %v", got, problems)
	}
}
