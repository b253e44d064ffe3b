package archtest

import (
	"maps"
	"os"
	"slices"
	"strings"
)

// Bounds of the top level, which a newcomer sees first.
const (
	maxFolders = 19
	maxArrows  = 80
)

// Folders returns the folders at the top of the repository, without those whose
// names begin with a dot and those that builds make.
func Folders(root string) (folders []string, err error) {
	entries, err := os.ReadDir(root)
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && e.Name() != "bin" && e.Name() != "dist" {
			folders = append(folders, e.Name())
		}
	}
	return folders, err
}

// Arrows returns, by folder at the top, the folders that packages in it import,
// tests not counted.
func Arrows(tree *Tree) map[string]map[string]bool {
	arrows := make(map[string]map[string]bool)
	for _, file := range tree.Files {
		from, _, below := strings.Cut(file.Path, "/")
		if file.Test() || !below {
			continue
		}
		for _, spec := range file.Syntax.Imports {
			target, ours := housePackage(importPath(spec))
			to, _, _ := strings.Cut(target, "/")
			if !ours || to == from || to == "." {
				continue
			}
			if arrows[from] == nil {
				arrows[from] = make(map[string]bool)
			}
			arrows[from][to] = true
		}
	}
	return arrows
}

// Circles returns the folders from which a circle of arrows can be reached, sorted:
// those are left when each that imports none of the others is taken away.
func Circles(arrows map[string]map[string]bool) []string {
	left := maps.Clone(arrows)
	for before := -1; before != len(left); {
		before = len(left)
		maps.DeleteFunc(left, func(_ string, to map[string]bool) bool {
			for folder := range to {
				if left[folder] != nil {
					return false
				}
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(left))
}
