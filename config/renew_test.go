package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func loaded(t *testing.T, text string) Config {
	t.Helper()
	c, err := Load(Sources{File: "trivet.yaml", Text: []byte(text), HostName: "h1"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Each key, changed alone, is applied or waits for a restart, as its row says; the
// other way round it is as before.
func TestEveryKeyIsRenewed(t *testing.T) {
	for _, o := range Options() {
		if o.AliasOf != "" {
			continue
		}
		t.Run(o.Key, func(t *testing.T) {
			c := Default()
			next := c.deepCopy()
			value, f := o.parse(otherValue(t, o))
			if f != nil {
				t.Fatal(f.what)
			}
			o.set(&next, value)
			r := c.Renew(next)
			applied, restart := slices.Equal(r.Applied, []string{o.Key}), slices.Equal(r.Restart, []string{o.Key})
			if len(r.Together) > 0 { // a default configuration with this alone may be no good one
				applied, restart = o.Change == AtReload, o.Change == AtRestart
			}
			if applied != (o.Change == AtReload) || restart != (o.Change == AtRestart) {
				t.Errorf("renewed-otherwise: applied %v, to restart for %v; its row says %s", r.Applied, r.Restart, o.Change)
			}
			if got := o.exact(&r.Config) == o.exact(&next); got != (o.Change != AtRestart) && len(r.Together) == 0 {
				t.Errorf("renewed-otherwise: the new value counts: %t", got)
			}
		})
	}
}

// TestFencesWaitForTheirClusters: the devices of clusters that a peer does not watch yet count with these.
func TestFencesWaitForTheirClusters(t *testing.T) {
	const fences, clusters = "failover.fence_file", "failover.kubeconfigs"
	text := func(kubeconfigs, file string) string {
		return "failover: {mode: safe, kubeconfigs: [" + kubeconfigs + "], fence_file: " + file + "}\n"
	}
	for _, c := range []struct {
		what, kubeconfigs, file string
		rewritten               []string
		waits                   bool
	}{
		{"another file", "prod=/a", "/f2", nil, false},
		{"rewritten", "prod=/a", "/f1", []string{fences}, false},
		{"rewritten, and a kubeconfig of others", "prod=/a", "/f1", []string{fences, "haconfig.kubeconfigs"}, false},
		{"another file and cluster", "prod=/a, stage=/b", "/f2", nil, true},
		{"rewritten, another cluster", "stage=/a", "/f1", []string{fences}, true},
		{"rewritten, another kubeconfig", "prod=/b", "/f1", []string{fences}, true},
		{"both rewritten", "prod=/a", "/f1", []string{fences, clusters}, true},
		{"another file, a rewritten kubeconfig", "prod=/a", "/f2", []string{clusters}, true},
	} {
		next := loaded(t, text(c.kubeconfigs, c.file)+"log: {level: debug}\n")
		r := loaded(t, text("prod=/a", "/f1")).Renew(next, c.rewritten...)
		applied, restart := slices.Contains(r.Applied, fences), slices.Contains(r.Restart, fences)
		if applied == c.waits || restart != c.waits || !slices.Contains(r.Applied, "log.level") ||
			c.waits && r.Config.Failover.FenceFile != "/f1" || !c.waits && r.Config.Failover.FenceFile != c.file {
			t.Errorf("fences-wait: %s: applied %v, to restart for %v, the file in force is %s", c.what, r.Applied, r.Restart,
				r.Config.Failover.FenceFile)
		}
	}
	var earlier []string
	for _, o := range Options() {
		for _, key := range o.With {
			if with, known := Lookup(key); !known || with.Change != AtRestart || !slices.Contains(earlier, key) {
				t.Errorf("fences-wait: %s is with %s, which is no earlier row that waits for a restart", o.Key, key)
			}
		}
		earlier = append(earlier, o.Key)
	}
}

// A mixture that neither side is waits for the restart, all of it: an API that is
// moved to this host alone and opened to everybody there is not opened to the
// network meanwhile.
func TestNoMixtureIsWorse(t *testing.T) {
	before := loaded(t,
		"api: {listen: \":5050\", auth_strategy: http_basic, http_basic_auth_user_file: /etc/users}\nlog: {level: info}\n")
	after := loaded(t, "api: {listen: \"127.0.0.1:5050\"}\nlog: {level: debug}\n")
	r := before.Renew(after)
	if len(r.Applied) > 0 || len(r.Together) == 0 || r.Config.API.AuthStrategy != "http_basic" ||
		r.Config.Log.Level != "info" {
		t.Errorf("worse-than-both: applied %v, strategy %q (%v)", r.Applied, r.Config.API.AuthStrategy, r.Together)
	}
	for _, key := range []string{"api.listen", "api.auth_strategy", "log.level"} {
		if !slices.Contains(r.Restart, key) {
			t.Errorf("%s is not said to wait: %v", key, r.Restart)
		}
	}
}

// Origins follow the file, also of what has not changed.
func TestOriginsAreRenewed(t *testing.T) {
	before := loaded(t, "raft: {timing: slow}\ninspection: {workers: 3}\n")
	after := loaded(t, "# moved\ninspection: {workers: 3}\nraft:\n  timing: fast\n")
	r := before.Renew(after)
	if got := r.Config.Origin("inspection.workers").String(); got != "trivet.yaml:2" {
		t.Errorf("inspection.workers stands at %s", got)
	}
	if got := r.Config.Origin("raft.timing").String(); got != "trivet.yaml:1" || r.Config.Raft.Timing != "slow" {
		t.Errorf("raft.timing, which has not changed here, is %s and stands at %s", r.Config.Raft.Timing, got)
	}
	if before.Origin("inspection.workers").Line != 2 || before.Inspection.Workers != 3 {
		t.Error("the configuration in force was changed in its place")
	}
}

// Marks are equal where values are, for who has the secret, and say nothing else.
func TestMarks(t *testing.T) {
	a, b := Default(), Default()
	b.Name, b.Firewall.Interface, b.Inspection.Workers = "h2", "eth7", 5
	if x, y := fmt.Sprint(a.Marks([]byte("k"))), fmt.Sprint(b.Marks([]byte("k"))); x != y {
		t.Errorf("what may differ has marks: %s, %s", x, y)
	}
	b.API.Keystone.Password = "hunter2"
	x, y := a.Marks([]byte("k")), b.Marks([]byte("k"))
	for _, o := range Options() {
		_, marked := x[o.Key]
		if marked != (o.Extent == AllHosts && o.AliasOf == "") {
			t.Errorf("%s has a mark: %t", o.Key, marked)
		}
		if differs := x[o.Key] != y[o.Key]; differs != (o.Key == "api.keystone.password") {
			t.Errorf("mark-of-another-value: that of %s differs: %t", o.Key, differs)
		}
	}
	for key, mark := range b.Marks([]byte("another secret")) {
		if mark == y[key] {
			t.Errorf("mark-without-the-secret: %s has the same mark in another cluster", key)
		}
	}
	a.API.HTTPBasicReaders, b.API.HTTPBasicReaders = []string{"a,b"}, []string{"a", "b"}
	if a.Marks(nil)["api.http_basic_readers"] == b.Marks(nil)["api.http_basic_readers"] {
		t.Error("one name with a comma is not two")
	}
	if strings.Contains(a.Line("api.keystone.password")+b.Line("api.keystone.password"), "hunter2") {
		t.Error("a line shows a secret")
	}
}
