package archtest

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// wholeTree is the repository, read once for all tests, which must not change it.
func wholeTree(t *testing.T) *Tree {
	t.Helper()
	tree, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

var load = sync.OnceValues(func() (*Tree, error) { return Load(filepath.Join("..", "..")) })

// TestHouse judges the repository itself.
func TestHouse(t *testing.T) {
	tree := wholeTree(t)
	if len(tree.Files) < 10 || len(tree.texts) < 10 {
		t.Fatalf("only %d files and %d texts: the walk is broken", len(tree.Files), len(tree.texts))
	}
	for _, rule := range rules() {
		for _, finding := range rule.judge(tree) {
			t.Error(finding)
		}
	}
}

// overBounds is what is over a bound, and by how much.
var overBounds = map[string]int{
	"config.Config": 19, // a field a section of the file: a group would lengthen each path and mean nothing
}

// TestTypesAndPackagesStaySmall: a type that knows everything, and a package that holds
// everything, begin with one more.
func TestTypesAndPackagesStaySmall(t *testing.T) {
	m := measured(wholeTree(t))
	large := over(m.methods, maxMethods)
	maps.Copy(large, over(m.structs, maxFields))
	maps.Copy(large, over(m.files, maxPackageFiles))
	if !maps.Equal(large, overBounds) {
		t.Errorf("over a bound: %v, want only %v: give a part of it to a type or package of its own", large, overBounds)
	}
}

// TestTopLevelIsBounded: few folders, few arrows between them, and no two that
// import each other, over others or directly.
func TestTopLevelIsBounded(t *testing.T) {
	tree := wholeTree(t)
	if n := len(tree.Folders); n > maxFolders {
		t.Errorf("%d folders at the top; at most %d: %v", n, maxFolders, tree.Folders)
	}
	arrows := arrows(tree)
	if n := len(arrows); n > maxArrows || n < 20 {
		t.Errorf("%d arrows between folders; at most %d: %v", n, maxArrows, arrows)
	}
	if _, circles := floors(arrows); len(circles) > 0 {
		t.Errorf("folders import each other, reached from %v", circles)
	}
}

var update = flag.Bool("update", false, "write the picture in ARCHITECTURE.md again")

// TestArchitectureHasThePicture: the picture in ARCHITECTURE.md, in its one fence, is the
// one that is made of the source (make picture).
func TestArchitectureHasThePicture(t *testing.T) {
	tree := wholeTree(t)
	parts := strings.Split(tree.texts[architecture].Source, "```")
	if len(parts) != 3 {
		t.Fatalf("%s has %d fences, want the one picture", architecture, len(parts)-1)
	}
	want := "\n" + picture(tree)
	if *update {
		page := parts[0] + "```" + want + "```" + parts[2]
		if err := os.WriteFile(filepath.Join(tree.Root, architecture), []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if different := pictureDiffers(parts[1], want); different != "" {
		t.Errorf("the picture in %s is not that of the source (%s): run 'make picture'", architecture, different)
	}
}
