package kubepolicy

import (
	"os"
	"strings"
	"testing"
)

// The policy of testdata was applied to an API server by test/labtest, which
// shows what it refuses.
func TestManifest(t *testing.T) {
	got, err := Manifest(Options{Lease: "etcd-backup", Selector: "app=backup,tier!=test",
		Resources: []string{"configmaps", "deployments.apps"}, Namespace: "db"})
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("the policy is\n%s\nwant\n%s", got, want)
	}
}

func TestNamesOfPolicies(t *testing.T) {
	for _, c := range []struct{ lease, name, want string }{
		{"backup", "", "name: trivet-lease-backup\n"},
		{"backup", "mine", "name: mine\n"},
	} {
		text, err := Manifest(Options{Lease: c.lease, Name: c.name, Selector: "a=b", Resources: []string{"secrets"}})
		if err != nil || strings.Count(string(text), c.want) != 2 {
			t.Errorf("%+v: %v\n%s", c, err, text)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	right := Options{Lease: "backup", Selector: "a=b", Resources: []string{"secrets"}}
	for says, change := range map[string]func(*Options){
		"no lease":                  func(o *Options) { o.Lease = "" },
		"cannot be the name of a l": func(o *Options) { o.Lease = `a' || 'b` },
		"no label":                  func(o *Options) { o.Selector = "" },
		"no resources":              func(o *Options) { o.Resources = nil },
		"selector":                  func(o *Options) { o.Selector = "a in" },
		"not possible":              func(o *Options) { o.Selector = "a>3" },
		"namespace":                 func(o *Options) { o.Namespace = "A B" },
		"want RESOURCE":             func(o *Options) { o.Resources = []string{"*"} },
		"name of a policy":          func(o *Options) { o.Name = "A" },
	} {
		o := right
		change(&o)
		if text, err := Manifest(o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q\n%s", o, err, says, text)
		}
	}
}
