package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Bounds of one command.
const (
	// commandLimit is its time. A commit of 10,000 MACs takes half a second on
	// a busy machine.
	commandLimit = 8 * time.Second
	// lockWait is how long it waits for the lock that all programs share which
	// change rules of the legacy back end.
	lockWait = 3 * time.Second
	// giveUp is how long after its end its output is waited for.
	giveUp = time.Second
	// maxOutput bounds what iptables-save may print, in bytes: 400,000 rules.
	maxOutput = 32 << 20
	// maxComplaint is how many bytes of an error message are kept.
	maxComplaint = 4 << 10
)

// bounded keeps the beginning of what is written to it, and reads on.
type bounded struct {
	kept  bytes.Buffer // not embedded: io.Copy would read into it without bound
	limit int
	over  bool
}

// Write implements io.Writer; it never fails.
func (b *bounded) Write(p []byte) (int, error) {
	room := min(len(p), b.limit-b.kept.Len())
	b.over = b.over || room < len(p)
	b.kept.Write(p[:room])
	return len(p), nil
}

// run executes one command of iptables to its end and returns what it printed.
// It runs where the caller's thread is: in its network namespace.
func run(ctx context.Context, text, path string, args ...string) ([]byte, error) {
	return begin(ctx, text, path, args...)()
}

// begin starts what run executes; end, which must be called, waits for it.
func begin(ctx context.Context, text, path string, args ...string) (end func() ([]byte, error)) {
	limited, cancel := context.WithTimeout(ctx, commandLimit)
	out, complaint := &bounded{limit: maxOutput}, &bounded{limit: maxComplaint}
	cmd := exec.CommandContext(limited, path, args...)
	cmd.Stdin = strings.NewReader(text)
	cmd.Stdout, cmd.Stderr = out, complaint
	cmd.Env = append(os.Environ(), "LC_ALL=C") // messages are read
	cmd.WaitDelay = giveUp
	started := cmd.Start()
	return func() ([]byte, error) {
		defer cancel()
		err := started
		if err == nil {
			err = cmd.Wait()
		}
		if err != nil {
			if limited.Err() != nil {
				err = fmt.Errorf("%w: %w", limited.Err(), err)
			}
			return nil, newFailure(filepath.Base(path), text, complaint.kept.String(), err)
		}
		if out.over {
			return nil, fmt.Errorf("%s printed more than %d bytes, which no host's rules should take", filepath.Base(path), maxOutput)
		}
		return out.kept.Bytes(), nil
	}
}

// wait are the arguments that bound the wait for the lock. They count whole
// seconds; a context that ends sooner ends the command.
func wait() []string { return []string{"-w", strconv.Itoa(int(lockWait / time.Second))} }

// find returns the path of a command.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	// Not everybody's PATH has them.
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%s: not found; install the package iptables", name)
	}
	return "", fmt.Errorf("%s: %w", name, err)
}
