package logs

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/test/testenv"
)

// record returns a logger and what it wrote, without times.
func record() (*slog.Logger, *bytes.Buffer) {
	out := new(bytes.Buffer)
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), out
}

func TestLimitPassesTheFirstLineAndOneEachTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, out := record()
		log := Limit(to)
		for n := range 3600 { // an hour
			log.Warn("send failed, retrying", "peer", "h2", "tries", n, "err", errors.New("port "+fmt.Sprint(n)))
			time.Sleep(time.Second) // in a bubble
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 6 || lines[0] != `level=WARN msg="send failed, retrying" peer=h2 tries=0 err="port 0"` ||
			!strings.HasSuffix(lines[1], ` err="port 600" repeated=599`) {
			t.Errorf("repeat-is-bounded: %d lines:\n%s", len(lines), out)
		}
	})
}

func TestLimitTellsConditionsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, out := record()
		log := Limit(to)
		about := log.With("peer", "h2")
		for range 3 {
			log.Warn("a", "peer", "h1")
			about.Warn("a")
			log.Warn("a", "peer", "h3")
			log.Warn("b", "peer", "h3")
			log.Error("b", "peer", "h3")
		}
		if n := strings.Count(out.String(), "\n"); n != 5 {
			t.Errorf("%d lines, want one for each of five conditions:\n%s", n, out)
		}
		time.Sleep(Every) // in a bubble: the condition ended, and this is another
		log.Warn("a", "peer", "h1")
		if got := out.String(); !strings.HasSuffix(got, "level=WARN msg=a peer=h1\n") {
			t.Errorf("a condition that begins again: %s", got)
		}
	})
}

func TestLimitDoublesUpToItsMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, out := record()
		log := LimitAt(to, Pace{Every: time.Minute, Most: 4 * time.Minute})
		began := time.Now()
		var passed []string
		for range 20 * 60 {
			before := out.Len()
			log.Warn("a")
			if out.Len() > before {
				passed = append(passed, time.Since(began).String())
			}
			time.Sleep(time.Second) // in a bubble
		}
		if got, want := strings.Join(passed, " "), "0s 1m0s 3m0s 7m0s 11m0s 15m0s 19m0s"; got != want {
			t.Errorf("passed after %s, want %s", got, want)
		}
	})
}

// Whoever may choose a key's text must not fill the memory, or the log.
func TestLimitBoundsItsConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, out := record()
		log := Limit(to)
		for n := range 10 * maxConditions {
			log.Warn("a", "name", fmt.Sprint(n))
		}
		if n := strings.Count(out.String(), "\n"); n != maxConditions+1 {
			t.Errorf("%d lines, want %d", n, maxConditions+1)
		}
		time.Sleep(Every) // in a bubble: all have ended and make room
		out.Reset()
		log.Warn("a", "name", "x")
		log.Warn("a", "name", "y")
		if n := strings.Count(out.String(), "\n"); n != 2 {
			t.Errorf("after the end of all conditions: %s", out)
		}
	})
}

func TestRequestsAddsTheKeysOfTheContext(t *testing.T) {
	to, out := record()
	log := slog.New(Requests(to.Handler())).With("part", "p")
	log.Info("without")
	log.InfoContext(WithRequest(t.Context(), Request{ID: "req-1"}), "with")
	log.InfoContext(WithRequest(t.Context(), Request{ID: "req-1", Global: "req-2"}), "both")
	want := "level=INFO msg=without part=p\nlevel=INFO msg=with part=p request_id=req-1\nlevel=INFO msg=both part=p request_id=req-1 global_request_id=req-2\n"
	if out.String() != want {
		t.Errorf("logged\n%swant\n%s", out, want)
	}
}

func TestPriority(t *testing.T) {
	for level, want := range map[slog.Level]string{slog.LevelDebug: "<7>", slog.LevelInfo: "<6>", slog.LevelWarn: "<4>",
		slog.LevelError: "<3>", slog.LevelError + 4: "<3>"} {
		if got := Priority(level); got != want {
			t.Errorf("%v: %s, want %s", level, got, want)
		}
	}
}

func TestInJournalComparesDeviceAndInode(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", w.Fd()))
	if err != nil {
		testenv.Missing(t, "no /proc here: %v", err)
	}
	inode := strings.TrimSuffix(strings.TrimPrefix(link, "pipe:["), "]")
	device := deviceOf(t, w)
	for stream, want := range map[string]bool{device + ":" + inode: true, device + ":1": false, "0:" + inode: false,
		"": false, "x": false} {
		if got := InJournal(w, stream); got != want {
			t.Errorf("JOURNAL_STREAM=%q: %v, want %v", stream, got, want)
		}
	}
	if InJournal(nil, device+":"+inode) {
		t.Error("no file is the journal")
	}
}

// deviceOf asks the kernel, by a way of its own, on which device f is.
func deviceOf(t *testing.T, f *os.File) string {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(stat.Dev)
}
