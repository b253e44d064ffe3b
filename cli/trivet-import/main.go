// Command trivet-import takes a site over from ironic-inspector: its configuration and
// its database. It is a program and a package of its own: it is used once, and a peer
// has neither the original's options nor drivers of databases in it.
package main

import (
	"os"

	"github.com/trivet-ha/trivet/cli/trivet-import/importer"
)

func main() {
	os.Exit(importer.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
