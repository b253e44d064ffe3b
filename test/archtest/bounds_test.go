package archtest

import (
	"maps"
	"path"
	"testing"
)

// The bounds of types and packages (CONTRIBUTING.md). A package's files are those without
// tests.
const (
	maxMethods      = 30
	maxFields       = 15
	maxPackageFiles = 40
)

// overBounds is what is over a bound, and by how much.
var overBounds = map[string]int{
	"config.Config": 19, // a field a section of the file: a group would lengthen each path and mean nothing
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
	over := make(map[string]int)
	for bound, all := range map[int][]Size{maxMethods: figures.MethodSets, maxFields: figures.Structs,
		maxPackageFiles: sizes(files)} {
		for _, s := range all {
			if s.N > bound {
				over[s.Name] = s.N
			}
		}
	}
	if !maps.Equal(over, overBounds) {
		t.Errorf("over a bound: %v, want only %v: give a part of it to a type or package of its own", over, overBounds)
	}
}
