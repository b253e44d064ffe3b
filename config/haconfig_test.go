package config

import (
	"strings"
	"testing"
)

func TestLabelPrefix(t *testing.T) {
	for text, want := range map[string]bool{
		"high-availability-config.resources.gardener.cloud/": true, "a/": true, "a": false, "": false, "/": false, "A/": false, "a/b/": false, "-a/": false, "a./": false,
	} {
		if got := labelPrefix().judge(text) == nil; got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestNamespaceRules reads rules, and refuses what is none.
func TestNamespaceRules(t *testing.T) {
	h := HAConfig{Namespaces: []string{"name=shop-* label=team=a label=x= tolerance=zone zones=a+b+c pinning=false", "name=* tolerance= zones=a", "label=k=v consider=false"}}
	rules := h.Rules()
	if len(rules) != 3 || rules[0].Name != "shop-*" || rules[0].Labels["team"] != "a" || rules[0].Labels["x"] != "" || *rules[0].Tolerance != "zone" || len(rules[0].Zones) != 3 || *rules[0].Pinning ||
		!rules[0].Consider || *rules[1].Tolerance != "" || rules[1].Pinning != nil || rules[2].Consider || rules[2].Tolerance != nil {
		t.Errorf("%+v", rules)
	}
	for _, item := range []string{
		"", "zones=a", "name=", "name=a name=b", "name=A", "name=-a", "name=a*b", "label=x", "label==x", "name=a tolerance=host zones=a", "name=a tolerance=zone",
		"name=a zones=", "name=a zones=a+a", "name=a zones=a+-b", "name=a zones=a/b", "name=a pinning=yes zones=a", "name=a pinning=true", "name=a consider=1", "name=a other=b", "name=a b",
	} {
		if isNamespaceRule(item) {
			t.Errorf("%q is a rule", item)
		}
	}
}

func TestHAConfigTogether(t *testing.T) {
	c := Default()
	if c.HAConfig.On() || len(c.checkHAConfig()) != 0 {
		t.Error("it is on by itself")
	}
	c.HAConfig.Kubeconfig, c.HAConfig.InCluster = "/x", true
	if p := c.checkHAConfig(); !c.HAConfig.On() || len(p) != 1 || p[0].Key != "haconfig.in_cluster" {
		t.Error(p)
	}
	c.HAConfig.Listen = c.API.Listen
	if p := c.portConflicts(); len(p) != 1 || p[0].Key != "haconfig.listen" || !strings.Contains(p[0].What, "api.listen") {
		t.Error(p)
	}
	for quirk, want := range map[string]bool{QuirkReplicas: true, QuirkSelector: true, QuirkAutoscaler: true, QuirkZones: true, "all": false} {
		if isQuirk(quirk) != want {
			t.Error(quirk)
		}
	}
}
