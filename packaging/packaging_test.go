package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
)

func TestPackageVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v0.1.0":                             "0.1.0",
		"v0.1.0-rc.1":                        "0.1.0~rc.1",
		"v0.1.0+20261121140246.37d3b057d827": "0.1.0+20261121140246.37d3b057d827",
		"v0.1.0+dirty":                       "0.1.0+dirty",
	} {
		if got := packageVersion(version); got != want {
			t.Errorf("packageVersion(%q) is %q, want %q", version, got, want)
		}
	}
}

// TestConfigurationFile takes the comments off what a fresh host gets: every key
// must be one, with its default, and as it stands it must write none: that is
// what "not configured" means to the unit.
func TestConfigurationFile(t *testing.T) {
	text, err := config.Template(nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Sources{File: "trivet.yaml", Text: text})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Effective() {
		if s.Origin.Kind != config.FromDefault {
			t.Errorf("%s is written in it", s.Key)
		}
	}
	open := regexp.MustCompile(`(?m)^( *)#([a-z_]+: )`).ReplaceAll(text, []byte("$1$2"))
	open = bytes.Replace(open, []byte(`name: ""`), []byte("name: h1"), 1) // its default is the host's
	c, err = config.Load(config.Sources{File: "trivet.yaml", Text: open})
	if err != nil {
		t.Fatalf("%v\n%s", err, open)
	}
	if c.Ironic.Password != "" || c.DataDir != config.Default().DataDir ||
		c.Origin("firewall.lease").Kind != config.FromFile {
		t.Errorf("the uncommented file gives %+v", c)
	}
}

// TestBill reads the bill of the test itself, which is a Go binary like any.
func TestBill(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)
	r := &release{env: cleanEnv(os.Environ())}
	modules, err := r.linkedModules(t.Context(), self)
	if err != nil {
		t.Fatal(err)
	}
	text, err := billOf(self, "v0.1.0+dev", modules, at)
	if err != nil {
		t.Fatal(err)
	}
	again, err := billOf(self, "v0.1.0+dev", modules, at)
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("a second bill of the same binary differs (%v)", err)
	}
	var b bill
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	if b.Format != "CycloneDX" || b.Spec != "1.6" || b.Metadata.Timestamp != "2026-11-21T14:00:00Z" ||
		len(b.Metadata.Component.Hashes) != 1 {
		t.Errorf("%+v", b)
	}
	refs := make(map[string]bool)
	for _, c := range b.Components {
		if len(c.Licenses) != 1 || c.Licenses[0].Expression == "" {
			t.Errorf("no licence of %s", c.Name)
		}
		if refs[c.Ref] || c.Version == "" || !strings.HasPrefix(c.PURL, "pkg:golang/"+c.Name+"@") ||
			strings.Contains(c.PURL, "+") {
			t.Errorf("component %+v", c)
		}
		refs[c.Ref] = true
	}
	has := func(name string) bool {
		return slices.ContainsFunc(b.Components, func(c component) bool { return c.Name == name })
	}
	if _, err := billOf(self, "v0.1.0", modules[1:], at); err == nil ||
		!strings.Contains(err.Error(), "no licence of "+modules[0].path) {
		t.Errorf("a bill with a module whose licence is not known: %v", err)
	}
	if got := b.Metadata.Component; got.Version != "v0.1.0+dev" || got.Licenses[0].Expression != "Apache-2.0" {
		t.Errorf("the program: %+v", got)
	}
	if !has("std") || !has("github.com/google/uuid") {
		t.Errorf("the standard library or a module is missing:\n%s", text)
	}
}

func TestSums(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "trivet_1_amd64.deb"), []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeSums(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, sumsFile))
	want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  trivet_1_amd64.deb\n"
	if err != nil || string(text) != want {
		t.Errorf("%q (%v), want %q", text, err, want)
	}
	if err := os.WriteFile(filepath.Join(dir, "notes"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := prepare(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "notes" {
		t.Errorf("an earlier build, and nothing else, should have gone: %v (%v)", left, err)
	}
}

// TestBounded: what is larger than it may be is refused by its name.
func TestBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trivet")
	if err := os.WriteFile(path, []byte("abcd"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := bounded(path, 4); err != nil {
		t.Errorf("4 of 4 bytes: %v", err)
	}
	if err := bounded(path, 3); err == nil || !strings.Contains(err.Error(), "trivet has 4 bytes, and 3 are allowed") {
		t.Errorf("4 of 3 bytes: %v", err)
	}
	if err := bounded(path+"-import", 3); err == nil {
		t.Error("a file that is not there is small enough")
	}
}

func TestCleanEnv(t *testing.T) {
	env := cleanEnv([]string{"PATH=/bin", "TRIVET_NAME=x", "GOFLAGS=-race", "GOAMD64=v3"})
	want := []string{"PATH=/bin", "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT="}
	if !slices.Equal(env, want) {
		t.Errorf("%q, want %q", env, want)
	}
}

// TestWritablePathsMayBeAway: each ReadWritePaths= that a unit has, or that an operator is told to
// write, begins with "-". Without it systemd starts no peer while the directory is away.
func TestWritablePathsMayBeAway(t *testing.T) {
	root := os.DirFS("..")
	needed := regexp.MustCompile(`ReadWritePaths=[^-\s"'` + "`" + `].*`)
	found := 0
	for _, dir := range []string{"README.md", "docs", "packaging/files", "packaging/chart", "contrib", "app", "cli",
		"doctor"} {
		err := fs.WalkDir(root, dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := fs.ReadFile(root, path)
			found += strings.Count(string(text), "ReadWritePaths=-")
			for _, bad := range needed.FindAllString(string(text), -1) {
				t.Errorf("path-may-be-away: %s: %s: write ReadWritePaths=-", path, bad)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if found < 7 {
		t.Errorf("path-may-be-away: %d places were found", found)
	}
}
