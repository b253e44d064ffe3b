//go:build e2e

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/trivet-ha/trivet/test/msgcheck"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestMain has this binary be trivet, too, and puts it on the path.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"trivet": func() { os.Exit(Main(os.Args[1:], os.Stdin, wholeMessages(os.Stdout), wholeMessages(os.Stderr))) },
	})
}

// exitWrongMessage is none of the exit codes of trivet.
const exitWrongMessage = 99

// wholeMessages ends the process in a way that no test expects when it writes a
// message that was put together wrongly, in an answer or in the log of a daemon.
func wholeMessages(w *os.File) io.Writer {
	return msgcheck.Writer(w, func(wrong string) {
		fmt.Fprintf(os.Stderr, "trivet: wrong message: %s\n", wrong)
		os.Exit(exitWrongMessage)
	})
}

// TestProcessScripts runs what starts programs: those that hold a lease, and those that
// list the rules of the tester's own host.
func TestProcessScripts(t *testing.T) {
	p := scripts(t, "testdata/process")
	p.Cmds["process"] = process
	p.Cmds["await"] = awaitText
	p.Cmds["bundle"] = bundle
	testscript.RunT(oneByOne{t}, p)
}

// process runs a command in a process that must end with an exit code: process N
// COMMAND ARG….
func process(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: process N COMMAND ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%v: exit %d, want %d", args[1:], got, want)
	}
}

// awaitText waits until a file has a line: await REGEXP FILE.
func awaitText(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await REGEXP FILE")
	}
	line, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	ts.Check(testwait.Poll(context.Background(), testwait.Limit, args[1]+" has a line "+args[0], func() error {
		text, err := os.ReadFile(ts.MkAbs(args[1]))
		if err == nil && !line.Match(text) {
			err = fmt.Errorf("it has %q", text)
		}
		return err
	}))
}

// bundle prints the files of a support bundle: bundle FILE.
func bundle(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: bundle FILE")
	}
	for name, text := range unpacked(scriptOf(ts).t, ts.MkAbs(args[0])) { // order-free: the script looks for text
		_, err := fmt.Fprintf(ts.Stdout(), "%s\n%s\n", name, text)
		ts.Check(err)
	}
}
