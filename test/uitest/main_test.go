//go:build e2e

package uitest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/trivet-ha/trivet/cli"
	"github.com/trivet-ha/trivet/test/labtest"
)

func TestMain(m *testing.M) {
	if all := os.Getenv(topServers); all != "" {
		os.Exit(cli.Main([]string{"top", "--server", all}, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(run(m))
}

// run builds the program for the tests against processes, unless it was named.
func run(m *testing.M) int {
	if os.Getenv(labtest.BinaryEnv) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "trivet-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "trivet")
	build := exec.Command("go", "build", "-o", binary, "github.com/trivet-ha/trivet")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build trivet:", err)
		return 1
	}
	if err := os.Setenv(labtest.BinaryEnv, binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
