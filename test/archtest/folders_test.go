package archtest

import (
	"slices"
	"testing"
)

// TestTopLevelIsBounded: few folders, few arrows between them, and no two that
// import each other, over others or directly.
func TestTopLevelIsBounded(t *testing.T) {
	folders, err := Folders(moduleRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) > maxFolders {
		t.Errorf("%d folders at the top; at most %d: %v", len(folders), maxFolders, folders)
	}
	tree, err := wholeTree()
	if err != nil {
		t.Fatal(err)
	}
	arrows, n := Arrows(tree), 0
	for _, to := range arrows {
		n += len(to)
	}
	if n > maxArrows || n < 20 {
		t.Errorf("%d arrows between folders; at most %d: %v", n, maxArrows, arrows)
	}
	if circles := Circles(arrows); len(circles) > 0 {
		t.Errorf("folders import each other, reached from %v", circles)
	}
}

func TestCirclesAreFound(t *testing.T) {
	tree := NewTree(".")
	for name, target := range map[string]string{"a/x.go": "b/sub", "b/sub/x.go": "c", "b/x.go": "b/sub", "c/x.go": "fsm",
		"d/x.go": "a", "c/x_test.go": "a", "x.go": "a"} {
		if err := tree.Add(name, []byte(importing(ours+target))); err != nil {
			t.Fatal(err)
		}
	}
	if arrows := Arrows(tree); len(arrows) != 4 || len(Circles(arrows)) != 0 || !arrows["a"]["b"] {
		t.Errorf("%v, circles from %v", arrows, Circles(arrows))
	}
	if err := tree.Add("c/y.go", []byte(importing(ours+"a/sub"))); err != nil {
		t.Fatal(err)
	}
	if got := Circles(Arrows(tree)); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("circles from %v", got)
	}
}
