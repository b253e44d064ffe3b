package archtest

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// The bounds of types and packages (CONTRIBUTING.md). A package's files are those without
// tests.
const (
	maxMethods      = 30
	maxFields       = 15
	maxPackageFiles = 40
)

// overBounds is what is still over a bound, and by how much. An entry becomes smaller
// with what it names, and goes when the bound is kept; there are no new ones.
var overBounds = map[string]map[string]int{
	"fields": {
		"config.Config": 19, // a field a section of the file: a group would lengthen each path and mean nothing
	},
}

// TestTypesAndPackagesStaySmall: a type that knows everything, and a package that holds
// everything, begin with one more.
func TestTypesAndPackagesStaySmall(t *testing.T) {
	tree, err := wholeTree()
	if err != nil {
		t.Fatal(err)
	}
	figures := Measure(tree)
	files := make(map[string]int)
	for _, file := range tree.Files {
		if !file.Test() && !file.Generated() {
			files[path.Clean(file.Package())]++
		}
	}
	checkBound(t, "methods", maxMethods, figures.MethodSets)
	checkBound(t, "fields", maxFields, figures.Structs)
	checkBound(t, "files", maxPackageFiles, sizes(files))
}

// checkBound compares what is larger than a bound with what may be.
func checkBound(t *testing.T, what string, bound int, all []Size) {
	t.Helper()
	left := maps.Clone(overBounds[what])
	for _, s := range all {
		allowed, listed := left[s.Name]
		delete(left, s.Name)
		switch {
		case s.N <= bound && listed:
			t.Errorf("%s has %d %s, which is within the bound: delete its entry in overBounds", s.Name, s.N, what)
		case s.N > max(bound, allowed):
			t.Errorf("%s has %d %s, at most %d: give a part of it to a type or package of its own", s.Name, s.N, what,
				max(bound, allowed))
		case s.N < allowed:
			t.Errorf("%s has %d %s: write that instead of %d in overBounds", s.Name, s.N, what, allowed)
		}
	}
	if len(left) > 0 {
		t.Errorf("overBounds names what has no %s: %s", what, strings.Join(slices.Sorted(maps.Keys(left)), ", "))
	}
}
