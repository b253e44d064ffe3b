// Package testenv answers for what the machine that runs a test lacks, and for what a
// test needs of it.
package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Missing skips a test because this machine lacks root, a program, a kernel
// feature or a lab. With CI=true it fails the test instead: continuous
// integration has all of them, and a test that is skipped there protects nothing.
// Call it from the goroutine that runs the test. It does not return.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("skipped with CI=true, which allows no skips: "+format, args...)
	}
	t.Skipf(format, args...)
}

// NeedRoot is Missing unless the test runs as root and has the commands.
func NeedRoot(t testing.TB, commands ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "it needs root")
	}
	for _, c := range commands {
		if _, err := exec.LookPath(c); err != nil {
			Missing(t, "it needs %s", c)
		}
	}
}

// RefusingAddress returns a TCP address of the loopback interface that refuses
// connections until the test ends. Its port stays bound, so no other process gets it,
// which one that was closed may be given at once.
func RefusingAddress(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatalf("open a socket: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Close(fd); err != nil {
			t.Errorf("close the socket of a refusing address: %v", err)
		}
	})
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatalf("bind a port of 127.0.0.1: %v", err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatalf("read the bound port: %v", err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
}
