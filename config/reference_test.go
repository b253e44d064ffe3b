package config

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

// The reference in docs is that of the table: go test ./config -run Reference -update
func TestReference(t *testing.T) {
	const path = "../docs/configuration.md"
	want := Reference()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not that of the table (%v): go test ./config -run TestReference -update", path, err)
	}
	for _, o := range Options() {
		for _, word := range []string{"`" + o.Key + "`", `<a id="` + strings.ReplaceAll(o.Key, ".", "") + `"></a>`, o.Help} {
			if !strings.Contains(string(want), word) {
				t.Errorf("%s: %q is not told", o.Key, word)
			}
		}
		// The page gives the rule by which a key has its variable and flag.
		name := strings.NewReplacer(".", "_").Replace(o.Key)
		if env, flag := "TRIVET_"+strings.ToUpper(name), "--"+strings.ReplaceAll(name, "_", "-"); o.Env() != env ||
			o.Flag() != flag {
			t.Errorf("%s has the variable %s and the flag %s, and docs/configuration.md says %s and %s", o.Key, o.Env(),
				o.Flag(), env, flag)
		}
	}
}

// Every option says when a new value counts, and on how many hosts it is the same.
func TestEveryKeyIsClassified(t *testing.T) {
	for _, o := range Options() {
		if o.Change.String() == "" {
			t.Errorf("unclassified: %s does not say whether a running peer takes a new value", o.Key)
		}
		if o.Extent.String() == "" {
			t.Errorf("unclassified: %s does not say whether it is the same on all peers", o.Key)
		}
		if target, ok := Lookup(o.AliasOf); ok && (target.Change != o.Change || target.Extent != o.Extent) {
			t.Errorf("unclassified: %s is another thing than %s", o.Key, o.AliasOf)
		}
		if o.Extent == OneHost && o.Change == AtReload && o.Key != "api.http_basic_auth_user_file" {
			t.Errorf("%s is of one host and can be reloaded: is that meant?", o.Key)
		}
	}
}
