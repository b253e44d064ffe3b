package ramdisklogs

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/inspector"
)

// unit is what sizes here count in: small, since each byte is written to a disk, and
// still more than leastCharge.
const unit = 2 * leastCharge

// quotaDir is a directory with a quota of 64 units and a clock that each Keep moves.
type quotaDir struct {
	*testing.T
	*Dir
	now time.Time
}

func newQuotaDir(t *testing.T, format string) *quotaDir {
	t.Helper()
	s := &quotaDir{T: t, Dir: open(t, format), now: noon()}
	s.quota = 64 * unit
	s.wall = func() time.Time { return s.now }
	return s
}

// keep stores logs of so many bytes, and dates the file as the clock says.
func (s *quotaDir) keep(node string, bytes int) (path string, err error) {
	s.Helper()
	s.now = s.now.Add(time.Second)
	logs := inspector.RamdiskLogs{Node: node, Base64: base64.StdEncoding.EncodeToString(make([]byte, bytes))}
	path, err = s.Keep(s.Context(), logs)
	if err == nil {
		err = os.Chtimes(path, s.now, s.now)
	}
	return path, err
}

func (s *quotaDir) must(node string, bytes int) string {
	s.Helper()
	path, err := s.keep(node, bytes)
	if err != nil {
		s.Fatal(err)
	}
	return path
}

// bytes is what the files whose names begin with prefix have.
func (s *quotaDir) bytes(prefix string) (files, bytes int) {
	s.Helper()
	entries, err := os.ReadDir(s.path)
	if err != nil {
		s.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil {
			s.Fatal(err)
		} else if strings.HasPrefix(e.Name(), prefix) {
			files, bytes = files+1, bytes+int(info.Size())
		}
	}
	return files, bytes
}

func nodeN(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func (s *quotaDir) has(path string, want bool) {
	s.Helper()
	if _, err := os.Stat(path); (err == nil) != want {
		s.Errorf("%s is there: %v, want %v", filepath.Base(path), err == nil, want)
	}
}

// What anybody can send takes a quarter of the quota, in large files and in
// small ones, and the newest of it stays.
func TestLogsOfUnknownMachinesAreBounded(t *testing.T) {
	s := newQuotaDir(t, "")
	known := s.must(nodeN(1), unit)
	for range 10 {
		s.must("", 6*unit)
	}
	last := s.must("", 6*unit)
	if _, bytes := s.bytes("unknown_"); bytes > 16*unit || bytes < 6*unit {
		t.Errorf("unknown-share: %d units", bytes/unit)
	}
	s.has(known, true)
	s.has(last, true)
	for range 2 * 16 * unit / leastCharge {
		s.must("", 1)
	}
	if files, _ := s.bytes("unknown_"); files != 16*unit/leastCharge {
		t.Errorf("unknown-share: %d small files", files)
	}
}

// Of all logs those of unknown machines go first; then the oldest.
func TestLogsHaveAQuota(t *testing.T) {
	s := newQuotaDir(t, "")
	first := s.must(nodeN(1), 6*unit)
	strangers := s.must("", 6*unit)
	second := s.must(nodeN(2), 6*unit)
	for n := range 8 {
		s.must(nodeN(n), 6*unit)
	}
	s.has(strangers, false)
	s.has(first, true)
	s.must(nodeN(3), 6*unit)
	s.has(first, false)
	s.has(second, true)
	if _, bytes := s.bytes(""); bytes > 64*unit {
		t.Errorf("quota: %d units", bytes/unit)
	}
	if _, err := s.keep("", 6*unit); err == nil || !strings.Contains(err.Error(), "ramdisk_logs_quota") {
		t.Errorf("a stranger's displace those of nodes: %v", err)
	}
	s.has(second, true)
}

// What has another name is another program's, and stays; what a process left
// that died while it wrote does not.
func TestForeignFilesStay(t *testing.T) {
	s := newQuotaDir(t, "")
	if err := os.MkdirAll(s.path, 0o755); err != nil {
		t.Fatal(err)
	}
	foreign, rest := filepath.Join(s.path, "syslog.1.tar.gz"), filepath.Join(s.path, unfinished+"123")
	for _, path := range []string{foreign, rest} {
		if err := os.WriteFile(path, make([]byte, 8*unit), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, noon(), noon()); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 12 {
		s.must(nodeN(n), 6*unit)
	}
	s.has(foreign, true)
	s.has(rest, false)
}

// The names that a format makes are known again, and whose they are.
func TestNamesAreKnownAgain(t *testing.T) {
	for _, format := range []string{"{uuid}_{dt:%Y%m%d-%H%M%S.%f}.tar.gz", "{mac}-{bmc}-{uuid}", "{dt}.{uuid}.{{x}}",
		"{dt:%a %B %j %z %Z %p %%}{uuid}", "logs+{uuid}"} {
		ours, err := pattern(format)
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range []map[string]string{{"uuid": "", "mac": "", "bmc": ""},
			{"uuid": nodeN(1), "mac": "52:54:00:00:00:01", "bmc": "2001:db8::1"}} {
			made, err := name(format, of, noon())
			if err != nil {
				t.Fatal(err)
			}
			match := ours.FindStringSubmatch(made)
			if match == nil || (match[1] == unknown) != (of["uuid"] == "") {
				t.Errorf("%s: %q is %q", format, made, match)
			}
			if ours.MatchString("~"+made) || ours.MatchString(made+"~") {
				t.Errorf("%s takes more than its names", format)
			}
		}
	}
}
