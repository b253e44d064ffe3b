//go:build e2e

package labtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// PreviousEnv names the variable with the path of the binary that an upgrade
// begins with; without it that of the last release is built.
const PreviousEnv = "TRIVET_TEST_PREVIOUS"

// lastRelease returns a binary built from the newest tag before the present
// commit, and the tag.
func lastRelease(t *testing.T) (binary, tag string) {
	t.Helper()
	if named := os.Getenv(PreviousEnv); named != "" {
		return named, filepath.Base(named)
	}
	root := strings.TrimSpace(string(git(t, ".", "rev-parse", "--show-toplevel")))
	tag, commit := release(t, root)
	return madeOnce(t, commit, "trivet", func() string {
		tree := checkOut(t, root, commit)
		build := exec.Command("go", "build", "-o", filepath.Join(tree, "trivet.built"), ".")
		build.Dir = tree
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", tag, err, out)
		}
		return filepath.Join(tree, "trivet.built")
	}), tag
}

// lastPackage returns the package of the newest release before the present commit.
func lastPackage(t *testing.T) (deb, tag string) {
	t.Helper()
	root := strings.TrimSpace(string(git(t, ".", "rev-parse", "--show-toplevel")))
	tag, commit := release(t, root)
	return madeOnce(t, commit, "trivet.deb", func() string {
		// v0.1.0 takes its version from git's tags, which a clone may lack.
		return versioned(t, packageOf(t, checkOut(t, root, commit)), strings.TrimPrefix(tag, "v"))
	}), tag
}

// madeOnce returns a file that is made of a commit. What was made once is kept, by the
// commit's hash.
func madeOnce(t *testing.T, commit, name string, produce func() string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	kept := filepath.Join(cache, "trivet-test", "release-"+commit, name)
	if program.Installed(kept) {
		return kept
	}
	made := produce()
	// In place under its name only when it is whole.
	testenv.Must(t, os.MkdirAll(filepath.Dir(kept), 0o755))
	sh(t, "cp", made, kept+".new")
	testenv.Must(t, os.Rename(kept+".new", kept))
	return kept
}

// checkOut lays a commit's tree in a folder of its own until the test ends.
func checkOut(t *testing.T, root, commit string) string {
	t.Helper()
	tree := filepath.Join(t.TempDir(), "tree")
	git(t, root, "worktree", "add", "--detach", tree, commit)
	t.Cleanup(func() { git(t, root, "worktree", "remove", "--force", tree) })
	return tree
}

// released finds a release's heading in CHANGELOG.md.
var released = regexp.MustCompile(`(?m)^## (v[0-9.]+), `)

// release finds the newest release before the present commit: its tag or, in a
// clone that has no tags, the commit that gave it its heading in CHANGELOG.md.
func release(t *testing.T, root string) (tag, commit string) {
	t.Helper()
	describe := exec.Command("git", "describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")
	describe.Dir = root
	if out, err := describe.Output(); err == nil {
		tag = strings.TrimSpace(string(out))
		return tag, strings.TrimSpace(string(git(t, root, "rev-parse", tag+"^{commit}")))
	}
	found := released.FindStringSubmatch(string(git(t, root, "show", "HEAD^:CHANGELOG.md")))
	if found == nil {
		t.Fatal("CHANGELOG.md names no release before the present commit")
	}
	commits := strings.Fields(
		string(git(t, root, "log", "-S", "## "+found[1], "--format=%H", "--reverse", "--", "CHANGELOG.md")))
	if len(commits) == 0 {
		testenv.Missing(t, "the history of this clone does not reach back to %s", found[1])
	}
	return found[1], commits[0]
}

// git runs git in a directory. Where there is no repository, or no tag in it,
// nothing can be tried.
func git(t *testing.T, dir string, words ...string) []byte {
	t.Helper()
	cmd := exec.Command("git", words...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		testenv.Missing(t, "git %s: %v", strings.Join(words, " "), err)
	}
	return out
}
