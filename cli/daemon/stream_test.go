package daemon

import (
	"bufio"
	"crypto/rand"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestLogWaitsForNoReader fills the journal's stream, which nobody reads, and then reads it.
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
