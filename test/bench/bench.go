package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

// Area is a group of measurements whose names begin with its own.
type Area struct {
	Name    string
	About   string
	Measure func(ctx context.Context, b *Bench) error
}

// Bench is what the areas work with. It is used by one goroutine.
type Bench struct {
	Report *Report
	Dir    string // removed at the end; on a real disk
	Trials int    // of everything that kills or stops leaders
	Nodes  int    // of area api; ten times as many in area growth
	// PowerOffs is how often a machine loses its power, Cut when waiting for a pod is
	// given up.
	PowerOffs int
	Cut       time.Duration
	Routes    *regexp.Regexp // of area crowd
	Least     time.Duration  // of each of its attacks
	Out       string         // file of the results; plots stand next to it
	Profiles  string         // directory for profiles of peers at work; empty: none

	binary string // of trivet; empty until it is built
	stderr io.Writer
}

// Say tells whoever waits how far it is.
func (b *Bench) Say(format string, args ...any) {
	fmt.Fprintf(b.stderr, "bench: "+format+"\n", args...)
}

// Folder makes a new folder in the working directory.
func (b *Bench) Folder(name string) (string, error) {
	dir, err := os.MkdirTemp(b.Dir, name+"-*")
	if err != nil {
		return "", fmt.Errorf("make a folder: %w", err)
	}
	return dir, nil
}

// Binary returns a trivet as releases are built; the first call builds it.
func (b *Bench) Binary(ctx context.Context) (string, error) {
	if b.binary != "" {
		return b.binary, nil
	}
	path := filepath.Join(b.Dir, "trivet")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, ".")
	build.Dir = "../.." // the module of the product; bench runs in its own
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build trivet: %w\n%s", err, out)
	}
	b.binary = path
	return path, nil
}
