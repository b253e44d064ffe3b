// Command figures prints how large the code that ships is and how it is cut: lines,
// functions, types, interfaces, exported names, folders at the top and their arrows.
// `make figures` calls it; with a directory as its argument it measures another tree,
// such as an earlier commit's.
package main

import (
	"fmt"
	"os"

	"github.com/trivet-ha/trivet/test/archtest"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	tree, err := archtest.Load(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	fmt.Print(archtest.Figures(tree))
}
