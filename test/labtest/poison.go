//go:build e2e

package labtest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
)

// PoisonedBinary builds a trivet with one more hook, "poison", which ends the
// process or panics when the document says so. The product's sources know
// nothing of it: the compiler is given the hook's file, and another registry,
// in the place of what lies on disk.
func PoisonedBinary(t testing.TB) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	testenv.Must(t, err)
	const anchor = "return []entry{\n"
	hooks := filepath.Join(root, "inspector", "hooks")
	registry := testenv.GetFile(t, hooks, "hooks.go")
	if strings.Count(registry, anchor) != 1 {
		t.Fatalf("hooks.go of %s has no %q any more, where the poison is put in", hooks, anchor)
	}
	binary := filepath.Join(t.TempDir(), "trivet")
	overlaid(t, binary, map[string]string{
		filepath.Join(hooks, "hooks.go"):  strings.Replace(registry, anchor, anchor+"\t\t{\"poison\", newPoison},\n", 1),
		filepath.Join(hooks, "poison.go"): testenv.GetFile(t, "testdata/poison", "poison.go"),
	})
	return binary
}
