package daemon

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"log"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestLogWaitsForNoReader fills the journal's stream, which is not read, and then reads it.
func TestLogWaitsForNoReader(t *testing.T) {
	for format, lost := range map[string]string{
		config.LogText: `<4>level=WARN msg="write log failed, lines lost" lines=`,
		config.LogJSON: `"level":"WARN","msg":"write log failed, lines lost","lines":`,
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		j := newJournal(journalTalk{w}, config.Log{Level: "info", Format: format})
		if err := j.keepLines(rand.Reader); err != nil {
			t.Fatal(err)
		}
		said, code := &term.Terminal{Err: j.talkOn(journalTalk{w})}, -1
		done := make(chan struct{})
		go func() {
			defer close(done)
			var loggers sync.WaitGroup
			for range 2 {
				loggers.Go(func() {
					for n := range 5_000 {
						j.logger.Info("a line of the audit, of ordinary length, as a busy site has them", "n", n)
					}
				})
			}
			loggers.Wait()
			// a lame duck must not act
			exitNow(said, func(c int) { code = c }, term.ExitLostLeadership, errors.New("duty gate did not stop"))
		}()
		testwait.Receive(t, done, "log-waits-for-no-reader: the end of loggers whose lines are not read")
		if code != term.ExitLostLeadership || !strings.Contains(j.recent.Text(), "n=4999") &&
			!strings.Contains(j.recent.Text(), `"n":4999`) {
			t.Errorf("exit %d, and operators do not find the newest line", code)
		}
		told := make(chan struct{})
		go func() {
			defer close(told)
			lines, sum := bufio.NewScanner(r), uint64(0)
			for sum < j.queue.Lost() && lines.Scan() {
				if _, n, ok := strings.Cut(lines.Text(), lost); ok {
					n, _ := strconv.ParseUint(strings.TrimSuffix(n, "}"), 10, 64) // 0 sums up to nothing
					sum += n
				}
			}
		}()
		testwait.Receive(t, told, "lost-lines-are-told: the lines that tell of all that are lost")
		if j.queue.Lost() == 0 {
			t.Error("log-queue-is-bounded: no line is lost")
		}
	}
}

// TestLibrariesWaitForNoReader has libraries log by themselves while standard error is full, and
// then reads it.
func TestLibrariesWaitForNoReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, output, flags, global := os.Stderr, log.Writer(), log.Flags(), slog.Default()
	t.Cleanup(func() {
		r.Close()
		w.Close()
		klog.ClearLogger()
		slog.SetDefault(global)
		log.SetOutput(output)
		log.SetFlags(flags)
		os.Stderr = stderr
	})
	os.Stderr = w
	log.SetOutput(w)
	newJournal(journalTalk{w}, config.Log{Level: "info", Format: config.LogText})
	fill(t, w)
	done := make(chan struct{})
	go func() {
		defer close(done)
		log.Print("of net/http")
		klog.Info("of a list")
		klog.Error("of a token")
	}()
	testwait.Receive(t, done, "libraries-wait-for-no-reader: the end of libraries whose lines are not read")
	want := map[string]bool{`<6>level=INFO msg="of net/http"`: true, `<6>level=INFO msg="of a list"`: true,
		`<3>level=ERROR msg="of a token"`: true}
	told := make(chan struct{})
	go func() {
		defer close(told)
		for lines := bufio.NewScanner(r); len(want) > 0 && lines.Scan(); {
			delete(want, lines.Text())
		}
	}()
	testwait.Receive(t, told, "libraries-are-heard: what libraries logged, as lines of the log")
}

// fill fills a pipe with empty lines.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	for n := 0; n == 0; { // one that begins after its deadline writes nothing
		if err := w.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, _ = w.Write(bytes.Repeat([]byte("\n"), 1<<20))
	}
	if err := w.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
}

// TestLastWordsFollowTheLog, each with its priority, and are written when the process ends.
func TestLastWordsFollowTheLog(t *testing.T) {
	read, w, stream := journalPipe(t)
	to := TalkOn(w, stream)
	j := newJournal(to, config.Log{Level: "info", Format: config.LogText})
	for range 3 {
		j.logger.Info("a")
	}
	exitNow(&term.Terminal{Err: j.talkOn(to)}, func(int) {}, term.ExitLostLeadership, errors.New("it failed"))
	want := strings.Repeat("<6>level=INFO msg=a\n", 3) +
		"<3>trivet: error: it failed\n<3>trivet: hint: the service manager starts it again; see the log above\n"
	if got := read(); got != want {
		t.Errorf("last-words-are-written: the journal got\n%swant\n%s", got, want)
	}
}
