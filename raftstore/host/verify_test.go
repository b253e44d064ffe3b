package host

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore"
)

// TestDamagedLogIsNamed damages a log of some pages in many ways: whatever is
// found is a CorruptError, and nothing crashes.
func TestDamagedLogIsNamed(t *testing.T) {
	for way, open := range ways {
		t.Run(way, func(t *testing.T) { damagedLogIsNamed(t, open) })
	}
}

func damagedLogIsNamed(t *testing.T, open func(string) (raftstore.Storage, error)) {
	whole := someLog(t, open)
	pages := len(whole) / os.Getpagesize()
	cases := map[string]func([]byte) []byte{
		"cut to a third": func(b []byte) []byte { return b[:len(b)/3] },
		"cut to a page":  func(b []byte) []byte { return b[:os.Getpagesize()] },
		"no bolt at all": func(b []byte) []byte { return bytes.Repeat([]byte("log\n"), len(b)/4) },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			err := openWith(t, open, change(bytes.Clone(whole)))
			var corrupt *raftstore.CorruptError
			if !errors.As(err, &corrupt) || filepath.Base(corrupt.Path) != logFile {
				t.Fatalf("open: %v, want a CorruptError that names %s", err, logFile)
			}
		})
	}
	found := 0
	for page := range pages { // an unused page may be anything
		text := bytes.Clone(whole)
		for i := range os.Getpagesize() {
			text[page*os.Getpagesize()+i] ^= 0x5a
		}
		err := openWith(t, open, text)
		var corrupt *raftstore.CorruptError
		if err != nil && !errors.As(err, &corrupt) {
			t.Errorf("page %d: %v, want a CorruptError or none", page, err)
		}
		if err != nil {
			found++
		}
	}
	if found < 3 {
		t.Errorf("only %d of %d damaged pages were found", found, pages)
	}
}

// someLog returns the file of a log that holds branch and leaf pages.
func someLog(t *testing.T, open func(string) (raftstore.Storage, error)) []byte {
	t.Helper()
	dir := made(t)
	st, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(400) {
		if err := st.Log.StoreLog(&raft.Log{Index: i + 1, Term: 1, Data: bytes.Repeat([]byte{1}, 100)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, logFile))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func openWith(t *testing.T, open func(string) (raftstore.Storage, error), text []byte) error {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, logFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := open(dir)
	if err != nil {
		return err
	}
	return st.Close()
}

// TestOpenClosesTheLogWhenSnapshotsFail opens a log whose snapshots cannot be
// read, and again when they can: the file of the log is not locked any more.
func TestOpenClosesTheLogWhenSnapshotsFail(t *testing.T) {
	for way, open := range ways {
		t.Run(way, func(t *testing.T) { closesTheLogWhenSnapshotsFail(t, open) })
	}
}

func closesTheLogWhenSnapshotsFail(t *testing.T, open func(string) (raftstore.Storage, error)) {
	dir := made(t)
	inTheWay := filepath.Join(dir, "snapshots")
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(dir); err == nil {
		t.Fatal("a file in the place of the snapshots was accepted")
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	st, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}
