package ramdisklogs

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/internal/bounds"
)

func noon() time.Time { return time.Date(2026, 11, 5, 12, 4, 9, 123456789, time.UTC) }

func open(t *testing.T, format string) *Dir {
	t.Helper()
	conf := config.Default().Inspection.Processing
	conf.RamdiskLogsDir = filepath.Join(t.TempDir(), "a", "b")
	if format != "" {
		conf.RamdiskLogsFilenameFormat = format
	}
	d, err := Open(conf, noon)
	if err != nil {
		t.Fatal(err)
	}
	d.free = func(path string) (uint64, uint64, error) {
		if _, of, err := free(path); err != nil || of == 0 {
			t.Errorf("how full %s is: %d, %v", path, of, err)
		}
		return 100 << 30, 500 << 30, nil // whatever this machine has
	}
	return d
}

func TestLogsAreKept(t *testing.T) {
	for _, c := range []struct{ format, want string }{
		{"", "n1_20261105-120409.123456.tar.gz"},
		{"{mac}-{bmc}.{{x}}", "52:54:00:00:00:01-unknown.{x}"},
		{"{dt}", "2026-11-05 12:04:09.123456"},
		{"{dt:%%%y%j %I%p %b}{uuid}", "%26309 12PM Novn1"},
	} {
		d := open(t, c.format)
		for _, content := range []string{"first", "second"} { // of the same moment: the last one stays
			path, err := d.Keep(t.Context(), inspector.RamdiskLogs{Node: "n1", MAC: "52:54:00:00:00:01",
				Base64: base64.StdEncoding.EncodeToString([]byte(content))})
			if err != nil || path != filepath.Join(d.path, c.want) {
				t.Fatalf("%q: %q, %v, want %q", c.format, path, err, c.want)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != content {
				t.Errorf("%q, %v", got, err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != fileMode {
				t.Errorf("%v, %v", info.Mode(), err)
			}
		}
		if all, err := os.ReadDir(d.path); err != nil || len(all) != 1 {
			t.Errorf("%v, %v", all, err)
		}
	}
}

func TestLogsAreRefused(t *testing.T) {
	d := open(t, "")
	if _, err := d.Keep(t.Context(), inspector.RamdiskLogs{Base64: "%%%"}); err == nil ||
		!strings.HasPrefix(err.Error(), "logs are not base64: ") {
		t.Errorf("%v", err)
	}
	for _, c := range []struct {
		free, of uint64
		err      error
		ok       bool
	}{
		{100 << 30, 500 << 30, nil, true},
		{100 << 20, 500 << 20, nil, false},
		{9 << 30, 500 << 30, nil, false},
		{0, 0, errors.New("gone"), false},
	} {
		d.free = func(string) (uint64, uint64, error) { return c.free, c.of, c.err }
		if _, err := d.Keep(t.Context(), inspector.RamdiskLogs{Base64: "eA=="}); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if d.Wants(true) != true || d.Wants(false) != false {
		t.Error("only what failed is wanted")
	}
}

func TestFormats(t *testing.T) {
	for format, want := range map[string]string{
		"{uuid": "unbalanced brace", "uuid}": "unbalanced brace", "{node}": "is none of", "{uuid:>40}": "is none of",
		"{dt:%Q}": "%Q",
		"{dt:%":   "unbalanced brace", "{dt:%}": "ends with a percent sign", ".hidden": "begins with a dot",
		"a/b":        "has a slash",
		"{dt:%Y/%m}": "has a slash", strings.Repeat("x", 256): "more than 255 bytes",
	} {
		conf := config.Processing{RamdiskLogsDir: "/x", RamdiskLogsFilenameFormat: format, RamdiskLogsQuota: 64}
		if _, err := Open(conf, noon); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v, want %s", format, err, want)
		}
	}
}

// The logs of machines that fail together are kept on a share that takes its time for each file, or stops once
// for seconds; one that is too slow for them all is called so, in time for the answer of each ramdisk.
func TestLogsOfManyOnASlowShare(t *testing.T) {
	for _, c := range []struct {
		name     string
		machines int
		file     time.Duration // takes each
		stall    time.Duration // takes the first one
		lost     bool          // some are
	}{
		{name: "a rack", machines: 66, file: 100 * time.Millisecond},
		{name: "three racks", machines: 200, file: 100 * time.Millisecond},
		{name: "a stall", machines: 66, file: time.Millisecond, stall: 4 * time.Second},
		{name: "too slow", machines: 66, file: time.Second, lost: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, done := open(t, "{mac}"), make(chan error)
			first := c.stall
			d.free = func(string) (uint64, uint64, error) {
				time.Sleep(max(c.file, first)) // in a bubble
				first = 0
				return 100 << 30, 500 << 30, nil
			}
			for n := range c.machines {
				time.Sleep(10 * time.Millisecond) // in a bubble
				ctx, cancel := context.WithTimeout(t.Context(), 27*time.Second)
				go func() {
					defer cancel()
					_, err := d.Keep(ctx, inspector.RamdiskLogs{MAC: fmt.Sprintf("mac-%d", n), Base64: "eA=="})
					done <- errors.Join(err, ctx.Err())
				}()
			}
			lost := 0
			for range c.machines {
				if err := <-done; errors.Is(err, bounds.ErrBusy) {
					lost++
				} else if err != nil {
					t.Errorf("logs-of-many: %s: %v", c.name, err)
				}
			}
			files, err := os.ReadDir(d.path)
			if err != nil || len(files) != c.machines-lost || lost > 0 != c.lost {
				t.Errorf("logs-of-many: %s: %d lost, %d kept, %v", c.name, lost, len(files), err)
			}
		})
	}
}

// A share that hangs costs the logs, and a ramdisk that waits for its answer some seconds, or none
// while it is known to hang.
func TestShareThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, share := open(t, ""), make(chan struct{})
		d.free = func(string) (uint64, uint64, error) {
			<-share
			return 100 << 30, 500 << 30, nil
		}
		for _, wait := range []time.Duration{storeLimit, 0, 0} {
			began := time.Now()
			if _, err := d.Keep(t.Context(), inspector.RamdiskLogs{Base64: "eA=="}); !errors.Is(err, bounds.ErrHangs) ||
				!strings.Contains(err.Error(), d.path) || time.Since(began) != wait {
				t.Errorf("share-hangs: %v after %v, want %v", err, time.Since(began), wait)
			}
		}
		close(share)
		synctest.Wait()
		if _, err := d.Keep(t.Context(), inspector.RamdiskLogs{Base64: "eA=="}); err != nil {
			t.Errorf("share-hangs: once it answers again: %v", err)
		}
	})
}
