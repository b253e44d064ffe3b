// Command trivet makes bare-metal introspection highly available: three peers,
// one replicated log, nothing else.
package main

import (
	"os"

	"github.com/trivet-ha/trivet/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
