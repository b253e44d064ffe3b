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
