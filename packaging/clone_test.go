//go:build e2e

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
)

// TestCloneWithoutTags builds the program in a clone that has no tags: its version
// is that of CHANGELOG.md and the commit, not Go's v0.0.0.
func TestCloneWithoutTags(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Missing(t, "needs git")
	}
	if err := exec.Command("git", "-C", root, "rev-parse", "HEAD").Run(); err != nil {
		testenv.Missing(t, "needs a clone of the repository: %v", err)
	}
	clone := filepath.Join(t.TempDir(), "clone")
	r := release{work: t.TempDir(), env: cleanEnv(os.Environ())}
	ctx := context.Background()
	if _, err := r.output(ctx, nil, "git", "clone", "-q", "--no-tags", "--no-local", "--depth", "1", "file://"+root,
		clone); err != nil {
		t.Fatal(err)
	}
	t.Chdir(clone)
	if err := errors.Join(r.date(ctx), r.binaries(ctx, runtime.GOARCH)); err != nil {
		t.Fatal(err)
	}
	if err := r.identify(ctx); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	newest := regexp.MustCompile(`(?m)^## (v[0-9.]+), `).FindSubmatch(text)
	if newest == nil {
		t.Fatal("CHANGELOG.md has no release")
	}
	want := regexp.MustCompile("^" + regexp.QuoteMeta(strings.TrimPrefix(string(newest[1]), "v")) +
		`(\+[0-9]{14}\.[0-9a-f]{12})?$`)
	if got := packageVersion(r.version); !want.MatchString(got) {
		t.Errorf("the packages of a clone without tags are of version %q, want %v", got, want)
	}
}
