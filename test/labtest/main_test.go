//go:build e2e

package labtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run builds the two programs once, unless they were named.
func run(m *testing.M) int {
	if os.Getenv(BinaryEnv) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "trivet-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "trivet")
	build := exec.Command("go", "build", "-o", dir+"/", "github.com/trivet-ha/trivet",
		"github.com/trivet-ha/trivet/cli/trivet-import")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build trivet:", err)
		return 1
	}
	if err := os.Setenv(BinaryEnv, binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
