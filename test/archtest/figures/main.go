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
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	root := "."
	if len(args) > 1 {
		return fmt.Errorf("%d arguments: want at most one, the root of a tree", len(args))
	}
	if len(args) == 1 {
		root = args[0]
	}
	tree, err := archtest.Load(root)
	if err != nil {
		return err
	}
	folders, err := archtest.Folders(root)
	if err != nil {
		return err
	}
	assets, err := archtest.Assets(root)
	if err != nil {
		return fmt.Errorf("count the lines of JavaScript and CSS: %w", err)
	}
	arrows, n := archtest.Arrows(tree), 0
	for _, to := range arrows {
		n += len(to)
	}
	fmt.Printf("folders at the top       %d\narrows between them      %d, circles reached from %d folders\n", len(folders),
		n, len(archtest.Circles(arrows)))
	if err := archtest.Measure(tree).Write(os.Stdout); err != nil {
		return err
	}
	_, err = fmt.Printf("lines of JS and CSS      %d\n", assets)
	return err
}
