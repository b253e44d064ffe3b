package config

import (
	"strings"
	"testing"
)

func TestElections(t *testing.T) {
	for text, want := range map[string]Election{
		"raft":                              {"raft", "", "127.0.0.1:4040"},
		"raft=127.0.0.1:16401":              {"raft", "", "127.0.0.1:16401"},
		"raft=[::1]:16401":                  {"raft", "", "[::1]:16401"},
		"lease:kuryr.controller=:1":         {"lease:kuryr.controller", "kuryr.controller", ":1"},
		"lease:a":                           {"lease:a", "a", "127.0.0.1:4040"},
		"":                                  {},
		"raft=":                             {},
		"raft=h1:4040":                      {},
		"lease:":                            {},
		"lease:A":                           {},
		"lease:-a":                          {},
		"lease":                             {},
		"Raft":                              {},
		"lease:" + strings.Repeat("a", 254): {},
	} {
		got, ok := parseElection(text)
		if ok != (want != Election{}) || ok && got != want {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
	}
	for text, want := range map[string]bool{"h1=host-1.example.org": true, "h1=": false, "=x": false, "h1": false,
		"h 1=x": false} {
		if got := ruleOf("elector.identities").checkValue([]string{text}) == nil; got != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func TestElectorTogether(t *testing.T) {
	c := Default()
	if len(c.Elector.Elections()) != 0 || len(reviewed(c, (*review).checkElector)) != 0 {
		t.Error("it is on by itself")
	}
	c.Elector.Listen = []string{"raft=127.0.0.1:5050", "lease:db=127.0.0.1:5050"}
	c.Elector.Identities = []string{"h1=a", "h1=b"}
	if p := reviewed(c, (*review).checkElector); len(p) != 2 || p[0].Key != "elector.listen" ||
		p[1].Key != "elector.identities" {
		t.Error(p)
	}
	if p := reviewed(c, (*review).portConflicts); len(p) != 3 || p[0].Key != "elector.listen" ||
		!strings.Contains(p[0].What, "api.listen") || !strings.Contains(p[2].What, "elector.listen") {
		t.Error(p)
	}
	c.Lease.Enabled, c.Elector.Listen, c.Elector.Identities = true, []string{"raft=127.0.0.1:16401", "lease:db"},
		[]string{"h1=a", "h2=b"}
	if p := append(reviewed(c, (*review).checkElector), reviewed(c, (*review).portConflicts)...); len(p) != 0 {
		t.Error(p)
	}
	if called := c.Elector.Called(); len(called) != 2 || called["h2"] != "b" {
		t.Error(called)
	}
}

// reviewed returns what one check finds.
func reviewed(c Config, check func(*review)) Problems {
	r := review{Config: c}
	check(&r)
	return r.found
}
