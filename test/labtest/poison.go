//go:build e2e

package labtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/labtest/program"
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
	registry := filepath.Join(root, "inspector", "hooks", "hooks.go")
	text, err := os.ReadFile(registry)
	testenv.Must(t, err)
	if strings.Count(string(text), anchor) != 1 {
		t.Fatalf("%s has no %q any more, where the poison is put in", registry, anchor)
	}
	dir := t.TempDir()
	replaced := filepath.Join(dir, "hooks.go")
	poisoned := strings.Replace(string(text), anchor, anchor+"\t\t{\"poison\", newPoison},\n", 1)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		registry: replaced,
		filepath.Join(root, "inspector", "hooks", "poison.go"): filepath.Join(root, "test", "labtest", "testdata", "poison",
			"poison.go"),
	}})
	testenv.Must(t, err)
	for path, content := range map[string][]byte{replaced: []byte(poisoned), filepath.Join(dir, "overlay.json"): overlay} {
		testenv.Must(t, os.WriteFile(path, content, 0o600))
	}
	binary := filepath.Join(dir, "trivet")
	out, err := program.Go("build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary,
		"github.com/trivet-ha/trivet").CombinedOutput()
	if err != nil {
		t.Fatalf("build a poisoned trivet: %v\n%s", err, out)
	}
	return binary
}
