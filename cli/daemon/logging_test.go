package daemon

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/internal/logs"
)

// journalPipe is what systemd gives a service for its standard error, and the
// value of JOURNAL_STREAM that names it.
func journalPipe(t *testing.T) (read func() string, w *os.File, stream string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(w.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	return func() string {
		w.Close()
		var out bytes.Buffer
		if _, err := out.ReadFrom(r); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}, w, fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

func TestJournalGetsPrioritiesAndNoSecondTime(t *testing.T) {
	read, w, stream := journalPipe(t)
	j := newJournal(TalkOn(w, stream), config.Log{Level: "debug", Format: config.LogText})
	if err := j.keepLines(rand.Reader); err != nil {
		t.Fatal(err)
	}
	log := j.logger.With("host", "h1")
	log.Debug("a")
	log.Info("b")
	log.Warn("c", "peer", "h2")
	log.Error("d\ne")
	j.flush()
	want := "<7>level=DEBUG msg=a host=h1\n<6>level=INFO msg=b host=h1\n<4>level=WARN msg=c host=h1 peer=h2\n<3>level=ERROR msg=\"d\\ne\" host=h1\n"
	if got := read(); got != want {
		t.Errorf("journal-priorities: the journal got\n%swant\n%s", got, want)
	}
	if got := j.recent.Text(); strings.Count(got, "time=") != 4 || strings.Contains(got, "<4>") {
		t.Errorf("a bundle gets\n%s", got)
	}
}

// A line belongs to the request whose keys its logger was made with: the audit puts its own in a group.
func TestKeptLinesKnowTheirRequest(t *testing.T) {
	j := newJournal(new(bytes.Buffer), config.Log{Level: "info", Format: config.LogText})
	if err := j.keepLines(rand.Reader); err != nil {
		t.Fatal(err)
	}
	log := j.logger.With("request_id", "req-1").WithGroup("audit")
	log.With("request_id", "req-2").Info("audit", "global_request_id", "req-3")
	j.logger.InfoContext(logs.WithRequest(t.Context(), logs.Request{ID: "req-4"}), "a")
	for request, want := range map[string]int{"req-1": 1, "req-2": 0, "req-4": 1} {
		w := logs.Wanted{Request: request, Most: 10, Bytes: 1 << 10}
		if lines, _, _ := j.recent.Newest(w); len(lines) != want {
			t.Errorf("line-of-a-request: %s: %d lines", request, len(lines))
		}
	}
}

func TestJournalKeepsJSONWhole(t *testing.T) {
	read, w, stream := journalPipe(t)
	j := newJournal(TalkOn(w, stream), config.Log{Level: "info", Format: config.LogJSON})
	j.logger.Warn("c")
	j.flush()
	var line map[string]any
	text, ok := strings.CutPrefix(read(), "<4>")
	if err := json.Unmarshal([]byte(text), &line); err != nil || !ok || line["time"] == nil {
		t.Errorf("the journal got %s (%v)", text, err)
	}
}

// A stream that only inherited the variable gets lines as before.
func TestFilesAndTerminalsGetPlainLines(t *testing.T) {
	read, w, stream := journalPipe(t)
	j := newJournal(TalkOn(w, "1"+stream), config.Log{Level: "info", Format: config.LogText})
	j.logger.InfoContext(logs.WithRequest(t.Context(), logs.Request{ID: "req-1"}), "a")
	j.flush()
	if got := read(); !regexp.MustCompile(`^time=\S+ level=INFO msg=a request_id=req-1\n$`).MatchString(got) {
		t.Errorf("logged %s", got)
	}
}

func TestLevelAndFormChangeWhileTheLogIsWritten(t *testing.T) {
	var out bytes.Buffer
	j := newJournal(&out, config.Log{Level: "warn", Format: config.LogText})
	log := j.logger.With(slog.String("host", "h1"))
	log.Info("a")
	j.set(config.Log{Level: "info", Format: config.LogJSON})
	log.Info("b")
	j.flush()
	if got := out.String(); strings.Contains(got, "msg=a") || !strings.Contains(got, `"msg":"b","host":"h1"`) {
		t.Errorf("logged %s", got)
	}
}

func TestTalkHasPrioritiesInTheJournal(t *testing.T) {
	read, w, stream := journalPipe(t)
	p := &term.Terminal{Err: TalkOn(w, stream)}
	p.Warn("the file %s is old", "x")
	p.Say("done")
	p.Complain(term.Fail(term.ExitFailed, "do this", "it failed"))
	want := "<4>trivet: warning: the file x is old\ntrivet: done\n<3>trivet: error: it failed\n<3>trivet: hint: do this\n"
	if got := read(); got != want {
		t.Errorf("the journal got\n%swant\n%s", got, want)
	}
}
