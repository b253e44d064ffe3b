//go:build e2e

package receivers

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/test/memlog"
	"github.com/trivet-ha/trivet/test/msgcheck"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestReceiverOfThePage runs the receiver of docs/events.md: it takes what is signed with its
// secret, each event once, and nothing else.
func TestReceiverOfThePage(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		testenv.Missing(t, "python3")
	}
	dir, address := t.TempDir(), testenv.FreePort(t)
	program := programOfThePage(t, address)
	for name, text := range map[string]string{"receiver.py": program, "cmdb.secret": secret + "\n",
		"other.secret": "whsec_" + strings.Repeat("A", 32)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), python, "receiver.py")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // it was killed
	made := func(file string) *Receiver {
		all, err := Open(config.Events{Receivers: []string{"cmdb=http://" + address + "/"},
			Secrets: []string{"cmdb=" + filepath.Join(dir, file)}, Kinds: []string{"cmdb=warning"}},
			Options{Wall: time.Now, Logger: msgcheck.Logger(t)})
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	good := made("cmdb.secret")
	testwait.Until(t, "the receiver of the page answers", func() bool { return good.Ping(t.Context(), "c") == nil })
	if err := made("other.secret").Ping(t.Context(), "c"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("forged: another secret is taken: %v", err)
	}
	s := newSite(t, memlog.New(t))
	from, _ := s.View().Delivered("cmdb")
	s.say(eventring.TopicWarning, 3)
	d, _, ok := good.nextDelivery(s.View(), from)
	if !ok {
		t.Fatal("nothing is to be sent")
	}
	for range 2 { // a repeat
		if err := good.post(t.Context(), d.id, d.body); err != nil {
			t.Fatal(err)
		}
	}
	s.say(eventring.TopicWarning, 1)
	from.Taken = d.until
	if d, _, _ = good.nextDelivery(s.View(), from); good.post(t.Context(), d.id, d.body) != nil {
		t.Fatal("the last event is not taken")
	}
	lines := bufio.NewScanner(out)
	for _, want := range []string{"warning 1", "warning 2", "warning 3", "warning 4"} {
		if !lines.Scan() || !strings.HasSuffix(lines.Text(), want) {
			t.Errorf("printed is %q, want %s", lines.Text(), want)
		}
	}
}

// programOfThePage is the receiver of docs/events.md, listening at an address.
func programOfThePage(t *testing.T, address string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```python\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/events.md has no receiver")
	}
	if lines := strings.Count(string(block[1]), "\n"); lines > 25 {
		t.Errorf("the receiver has %d lines", lines)
	}
	host, port, _ := strings.Cut(address, ":")
	program := strings.Replace(string(block[1]), `("127.0.0.1", 8080)`, `("`+host+`", `+port+`)`, 1)
	if program == string(block[1]) {
		t.Fatal("the receiver listens elsewhere")
	}
	return program
}
