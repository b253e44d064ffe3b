package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestVerbsOutliveTheirReaders: those that others rely on. Where one does not, this process dies of SIGPIPE.
func TestVerbsOutliveTheirReaders(t *testing.T) {
	t.Cleanup(func() { signal.Reset(syscall.SIGPIPE) })
	for _, args := range [][]string{
		{"elector"}, {"lease", "run", "a", "--server", "://", "--", "true"},
		{"serve", "--config", "/dev/null", "--data-dir", t.TempDir()},
	} {
		signal.Reset(syscall.SIGPIPE)
		var out, talk bytes.Buffer
		if code := Main(args, strings.NewReader(""), &out, &talk); code == 0 || talk.Len() == 0 {
			t.Errorf("%v: exit %d, %s", args, code, &talk)
		}
		// Said before: a process that dies says nothing afterwards.
		fmt.Printf("verbs-outlive-their-readers: if this is the last line, %s does not\n", args[0])
		if err := writeToNoReader(t); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("verbs-outlive-their-readers: %v: %v", args, err)
		}
	}
}

// writeToNoReader writes to standard error, which go test may have made standard output, while that is a pipe whose
// reader is gone.
func writeToNoReader(t *testing.T) error {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	fd := int(os.Stderr.Fd())
	kept, err := unix.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(kept)
	if err := unix.Dup3(int(w.Fd()), fd, 0); err != nil {
		t.Fatal(err)
	}
	_, written := os.Stderr.WriteString("x")
	if err := unix.Dup3(kept, fd, 0); err != nil {
		t.Fatal(err)
	}
	return written
}
