// Package program runs programs of this host to their end, within bounds of time and
// of memory.
package program

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Bounds of one program.
const (
	maxOutput    = 32 << 20 // of what it prints, in bytes: 400,000 rules of iptables
	maxComplaint = 4 << 10  // of its error messages
	// giveUp is how long after its end its output is waited for: a child may hold it.
	giveUp = time.Second
)

// Find returns the path of a program, also where PATH has no sbin.
func Find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, err)
}

// Kept keeps the first Most bytes of what is written to it, and reads on.
type Kept struct {
	Most int
	kept bytes.Buffer // not embedded: io.Copy would read into it without bound
	over bool
}

// Write implements io.Writer; it never fails.
func (k *Kept) Write(p []byte) (int, error) {
	room := min(len(p), k.Most-k.kept.Len())
	k.over = k.over || room < len(p)
	k.kept.Write(p[:room])
	return len(p), nil
}

// String returns what was kept.
func (k *Kept) String() string { return k.kept.String() }

// Result is what a program said.
type Result struct {
	Output    []byte
	Complaint string // its error messages, in English
}

// Run executes a program, for at most limit. The error says how it ended.
func Run(ctx context.Context, limit time.Duration, path string, args ...string) (Result, error) {
	return Start(ctx, limit, "", path, args...)()
}

// Start begins what Run executes, and hands input to it; wait, which must be called,
// waits for its end. It runs where the caller's thread is: in its network namespace.
func Start(ctx context.Context, limit time.Duration, input, path string, args ...string) (wait func() (Result, error)) {
	limited, cancel := context.WithTimeout(ctx, limit)
	out, complaint := &Kept{Most: maxOutput}, &Kept{Most: maxComplaint}
	cmd := exec.CommandContext(limited, path, args...)
	cmd.Stdin = strings.NewReader(input)
	cmd.Stdout, cmd.Stderr = out, complaint
	cmd.Env = Environ()
	cmd.WaitDelay = giveUp
	err := cmd.Start()
	return func() (Result, error) {
		defer cancel()
		if err == nil {
			err = cmd.Wait()
		}
		switch {
		case err != nil && limited.Err() != nil:
			err = fmt.Errorf("%w: %w", limited.Err(), err)
		case err == nil && out.over:
			err = fmt.Errorf("it printed more than %d bytes", maxOutput)
		}
		return Result{out.kept.Bytes(), complaint.String()}, err
	}
}

// Environ is the environment of a program: this process's own without our options, some of
// which are passwords that others read there and programs print; messages are in English.
func Environ() []string {
	own := slices.DeleteFunc(os.Environ(), func(line string) bool { return strings.HasPrefix(line, "TRIVET_") })
	return append(own, "LC_ALL=C")
}
