package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"
)

// check is one command of lint. Its output is empty, or holds what is wrong.
type check struct {
	name    string
	dir     string
	command []string
}

// staticcheck is pinned in staticcheck.mod.
var staticcheck = []string{"go", "tool", "-modfile=test/gate/staticcheck.mod", "staticcheck"}

// ownModules are folders whose libraries may not choose the versions of the binary. Each
// is checked only where it changed, since it brings others' code: an etcd client, Helm.
var ownModules = []string{"test/bench", "packaging/container"}

// lintChecks lists what lint runs. vet and staticcheck read the source of tier 2, too, so that
// it always compiles: no file is for builds without the tag, and a run without it finds no more.
func lintChecks(changedModules []string) []check {
	checks := []check{
		{"gofmt", ".", []string{"gofmt", "-l", "."}},
		{"vet", ".", []string{"go", "vet", "-tags", "e2e", "./..."}},
		{"staticcheck", ".", append(append([]string{}, staticcheck...), "-tags", "e2e", "./...")},
		{"archtest", ".", []string{"go", "test", "-count=1", "./test/archtest"}},
	}
	for _, dir := range changedModules {
		checks = append(checks, check{"vet of " + path.Base(dir), dir, []string{"go", "vet", "./..."}})
	}
	return checks
}

// lint runs the checks one after the other; each has its turn although an earlier one
// failed.
func lint(ctx context.Context, base string) int {
	s := &stage{name: "lint", began: time.Now()}
	changed, err := changedFiles(ctx, base)
	modules := slices.DeleteFunc(slices.Clone(ownModules),
		func(dir string) bool { return err == nil && !touches(changed, []string{dir + "/"}) })
	if err != nil {
		s.notes = append(s.notes, fmt.Sprintf("what changed is not known, %v are checked: %v", modules, err))
	}
	for _, c := range lintChecks(modules) {
		began := time.Now()
		said, err := c.run(ctx)
		if err != nil || c.name == "gofmt" && said != "" {
			fmt.Printf("%s\n", strings.TrimSpace(said))
			s.failed = append(s.failed, c.name+": "+complaint(said, err))
		}
		fmt.Printf("%-14s %5.1f s\n", c.name, time.Since(began).Seconds())
	}
	return s.finish(ctx)
}

// complaint is the first line that says what is wrong.
func complaint(said string, err error) string {
	if first := firstError(said); first != "" {
		return first
	}
	return fmt.Sprint(err)
}

func (c check) run(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
	cmd.Dir = c.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = killAfter
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
