//go:build e2e

// Package program runs the programs of a lab on this machine: it installs their Debian
// packages, and starts and ends their processes.
package program

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/test/testenv"
)

// policyFile is what Debian's maintainer scripts ask before they start a
// daemon; exit code 101 forbids it.
const policyFile = "/usr/sbin/policy-rc.d"

// installLock is held while packages are brought in.
const installLock = "/run/trivet-lab-install.lock"

// Install brings in Debian packages without starting what daemons they have, about a
// minute on a fresh machine. It waits for another test that does. Where it fails the
// test is skipped, or fails if nothing may be skipped (CI=true).
func Install(t testing.TB, what string, packages ...string) {
	t.Helper()
	testenv.NeedRoot(t, "apt-get")
	defer Lock(t, installLock)()
	forbidden, err := forbidDaemons()
	if err != nil {
		t.Fatalf("keep daemons of %s from starting: %v", what, err)
	}
	if forbidden {
		defer os.Remove(policyFile)
	}
	words := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
	out, err := apt(words...)
	if err != nil { // lists that were never fetched, or are older than the mirror
		if out, err = apt("update"); err == nil {
			out, err = apt(words...)
		}
	}
	if err != nil {
		testenv.Missing(t, "install %s: %v\n%s", what, err, Tail(string(out), 20))
	}
}

// Lock waits until no other test, of any process, is in what path guards, and
// returns what lets the next one in.
func Lock(t testing.TB, path string) (unlock func() error) {
	t.Helper()
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatalf("wait for the test that has %s: %v", path, err)
	}
	return lock.Close
}

// Installed reports whether there is a file at path.
func Installed(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// forbidDaemons writes the policy, unless there is one already.
func forbidDaemons() (wrote bool, err error) {
	file, err := os.OpenFile(policyFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = file.WriteString("#!/bin/sh\nexit 101\n")
	return true, errors.Join(err, file.Close())
}

// apt runs apt-get; it waits up to five minutes for another one to finish and
// tries a download three times.
func apt(args ...string) ([]byte, error) {
	cmd := exec.Command("apt-get",
		append([]string{"-q", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	return cmd.CombinedOutput()
}

// Tail returns the last lines of what a program wrote.
func Tail(text string, lines int) string {
	all := strings.Split(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
