//go:build e2e

package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestSignal: the process itself, interrupted as a person does it.
func TestSignal(t *testing.T) {
	api := newFakeAPI()
	looked := make(chan struct{}, 100) // one for each look after the start
	api.after = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == "GET" {
			select {
			case looked <- struct{}{}:
			default:
			}
		}
		return false
	}
	server := httptest.NewServer(api)
	defer server.Close()
	path, err := exec.LookPath("trivet") // TestMain put it there
	if err != nil {
		t.Fatal(err)
	}
	var out, talk bytes.Buffer
	cmd := exec.Command(path, "introspection", "start", "--wait", "silent", "--server", server.URL)
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testwait.Receive(t, looked, "the first look at the introspection")
	testwait.Receive(t, looked, "the second look at the introspection")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != term.ExitOutcomeUnknown {
		t.Errorf("exit %d (%v)", code, err)
	}
	if !strings.Contains(talk.String(), "the introspection goes on without this command") ||
		!strings.Contains(out.String(), "unfinished") {
		t.Errorf("said %q and %q", out.String(), talk.String())
	}
}
