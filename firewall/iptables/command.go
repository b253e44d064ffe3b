package iptables

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/trivet-ha/trivet/internal/program"
)

// Bounds of one command.
const (
	// commandLimit is its time. A commit of 10,000 MACs takes half a second on
	// a busy machine.
	commandLimit = 8 * time.Second
	// lockWait is how long it waits for the lock that all programs share which
	// change rules of the legacy back end.
	lockWait = 3 * time.Second
)

// runCommand executes one command of iptables to its end and returns what it printed.
// It runs where the caller's thread is: in its network namespace.
func runCommand(ctx context.Context, text, path string, args ...string) ([]byte, error) {
	return startCommand(ctx, text, path, args...)()
}

// startCommand starts what runCommand executes; end, which must be called, waits for it.
func startCommand(ctx context.Context, text, path string, args ...string) (end func() ([]byte, error)) {
	wait := program.Start(ctx, commandLimit, text, path, args...)
	return func() ([]byte, error) {
		said, err := wait()
		if err != nil {
			return nil, newFailure(filepath.Base(path), text, said.Complaint, err)
		}
		return said.Output, nil
	}
}

// wait are the arguments that bound the wait for the lock. They count whole
// seconds; a context that ends sooner ends the command.
func wait() []string { return []string{"-w", strconv.Itoa(int(lockWait / time.Second))} }

// errNotInstalled says that a command is not there.
var errNotInstalled = errors.New("not found; install the package iptables")

// find returns the path of a command.
func find(name string) (string, error) {
	path, err := program.Find(name)
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%s: %w", name, errNotInstalled)
	}
	return path, err
}
