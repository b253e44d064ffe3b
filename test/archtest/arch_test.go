package archtest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestHouse judges the repository itself.
func TestHouse(t *testing.T) {
	root := moduleRoot(t)
	tree, err := wholeTree()
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Files) < 10 {
		t.Fatalf("only %d files below %s: the walk is broken", len(tree.Files), root)
	}
	for _, finding := range Check(tree) {
		t.Error(finding)
	}
}

// wholeTree is the repository, read once for all tests, which must not change it.
var wholeTree = sync.OnceValues(func() (*Tree, error) { return Load(filepath.Join("..", "..")) })

// moduleRoot finds the directory of go.mod above the test's own.
func moduleRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatalf("the module's root: %v", err)
	}
	return root
}
