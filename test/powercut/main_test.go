//go:build e2e

package powercut

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/cli"
	"github.com/trivet-ha/trivet/test/labtest"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// asEnv makes this program what is recorded: "trivet", or "store" (writeLog). It is this program, not one
// that a test builds, so that a mutant is recorded, too.
const asEnv = "TRIVET_POWERCUT_AS"

// statesEnv says at how many states, for each of the recordings, the power is cut, and seedEnv says at
// which: another number cuts it at others.
const (
	statesEnv = "TRIVET_POWERCUTS"
	seedEnv   = "TRIVET_POWERCUT_SEED"
)

// TestPowerCut cuts the power at every kind of moment of what real processes do to their files.
func TestPowerCut(t *testing.T) {
	needStrace(t)
	inMemory(t)
	sum := &tally{wanted: number(t, statesEnv, 150), seed: uint64(number(t, seedEnv, 1))}
	t.Run("log", func(t *testing.T) { ofTheLog(t, sum) })
	t.Run("peer", func(t *testing.T) { ofAPeer(t, sum) })
	t.Run("joiner", func(t *testing.T) { ofAJoiner(t, sum) })
	t.Run("three", func(t *testing.T) { ofThreePeers(t, sum) })
	testenv.Count(t, "powercut.states", float64(sum.states))
	testenv.Count(t, "powercut.recordings", float64(sum.recordings))
	testenv.Count(t, "powercut.refused", float64(sum.refused))
	testenv.Count(t, "powercut.violations", float64(sum.violations))
}

// number returns what a variable says, or, where it is not set, another number.
func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

func TestMain(m *testing.M) {
	as := os.Getenv(asEnv)
	if err := os.Unsetenv(asEnv); err != nil { // trivet takes none that it does not know
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	switch as {
	case "trivet":
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	case "store":
		if err := writeLog(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := os.Setenv(labtest.BinaryEnv, os.Args[0]); err != nil { // each peer gets another
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// needStrace skips the test where there is no strace that may trace a child.
func needStrace(t *testing.T) {
	t.Helper()
	try := exec.Command("strace", "-D", "--seccomp-bpf", "-f", "-o", os.DevNull, "true")
	if out, err := try.CombinedOutput(); err != nil {
		testenv.Missing(t, "strace: %v: %s", err, out)
	}
}

// inMemory has temporary files lie in memory, if the host has a file system there: the recordings say
// what is on a disk.
func inMemory(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm")
	}
}

// script returns the path of a program that records what it runs.
func script(t *testing.T, traces, as, verbs string) string {
	t.Helper()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "recorded")
	text := fmt.Sprintf(`#!/bin/sh
peer=none was=
for word; do
	if [ "$was" = --data-dir ]; then peer=${word##*/}; fi
	was=$word
done
export %s=%s
case $1 in
%s) exec %s -- %s "$@" ;;
esac
exec %s "$@"
`, asEnv, as, verbs, strings.Join(Strace(traces+"/$peer.$$"), " "), self, self)
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// ended waits until strace has written all of every process.
func ended(t *testing.T, traces string) {
	t.Helper()
	testwait.Within(t, testwait.Bound(electLimit), "the recordings end", func() error {
		paths, err := filepath.Glob(filepath.Join(traces, "*"))
		for _, path := range paths {
			err = errors.Join(err, complete(path))
		}
		return err
	})
}

// complete says whether a recording tells of the end of its process.
func complete(path string) error {
	_, pid, _ := strings.Cut(filepath.Base(path), ".")
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	tail := make([]byte, min(info.Size(), 4096))
	if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil {
		return err
	}
	for line := range strings.Lines(string(tail)) {
		if strings.HasPrefix(line, pid+" ") && strings.Contains(line, " +++ ") && strings.HasSuffix(line, "\n") {
			return nil
		}
	}
	return fmt.Errorf("%s has no end", path)
}

// tally is what power cuts at recordings came to.
type tally struct {
	wanted                                  int // of each recording
	seed                                    uint64
	states, recordings, refused, violations int
}

// cutAll cuts the power at states of a recording. What a judge says fails the test.
func (sum *tally) cutAll(t *testing.T, r *Recording, wanted int, judge func(dir, store string, c Claims) error) {
	t.Helper()
	n := 0
	states, err := r.Cuts(wanted, sum.seed, t.TempDir(), func(c Cut, dir string, claims Claims) {
		n++
		// either store opens what the other has left, and a second start finds what the first did
		for _, store := range []string{Stores[n%2], Stores[n/2%2]}[:1+n/4%2] {
			err := judge(dir, store, claims)
			var refused *Refused
			var lost *Lost
			switch {
			case errors.As(err, &lost):
				sum.violations++
				t.Errorf("acknowledged-and-lost: %v, opened with %s: %v", c, store, err)
			case errors.As(err, &refused):
				sum.refused++
				t.Errorf("power-cut-refused: %v, opened with %s: %v", c, store, err)
			case err != nil:
				sum.violations++
				t.Errorf("acknowledged-and-lost: %v, opened with %s: %v", c, store, err)
			}
		}
		if sum.violations+sum.refused > maxReports {
			t.Fatalf("that is enough: %+v", *sum)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	sum.states += states
	sum.recordings++
	t.Logf("%s: %d moments, %d of them for names and files of the host, %d states", r.Name, r.cuts[0]+r.cuts[1],
		r.cuts[1], states)
}

// maxReports is after how many failures a test gives up.
const maxReports = 20
