package host

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/raftguard/wal"
)

// ways are the ways in which a log is opened.
var ways = map[string]func(dir string) (raftstore.Storage, error){"bolt": Open, "wal": openWAL}

func openWAL(dir string) (raftstore.Storage, error) { return OpenWAL(dir, rand.Reader) }

// made returns a folder that holds an empty log.
func made(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	st, err := Create(dir)
	if err == nil {
		err = st.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// killed returns a copy of a folder as a process that is killed now leaves it.
func killed(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func entryOf(index, term uint64) *raft.Log {
	return &raft.Log{Index: index, Term: term, Data: bytes.Repeat([]byte{byte(index), byte(term)}, 50),
		Extensions: []byte("four")}
}

// TestLogIsTheSameEitherWay writes, deletes, is killed or stopped, and goes on in the
// same way or the other: what was acknowledged is there, and terms and votes are.
func TestLogIsTheSameEitherWay(t *testing.T) {
	for first := range ways {
		for second := range ways {
			for _, orderly := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, then %s, orderly %v", first, second, orderly), func(t *testing.T) {
					dir := changed(t, ways[first], orderly)
					st, err := ways[second](dir)
					if err != nil {
						t.Fatal(err)
					}
					compareChanged(t, st)
					if err := st.Log.StoreLog(entryOf(59, 4)); err != nil {
						t.Error(err)
					}
					if there := filesOfWAL(t, dir); there != (second == "wal") {
						t.Errorf("the write-ahead log of %s is there: %v", second, there)
					}
					if err := st.Close(); err != nil {
						t.Error(err)
					}
					if filesOfWAL(t, dir) {
						t.Error("an orderly stop left files of the write-ahead log")
					}
				})
			}
		}
	}
}

func filesOfWAL(t *testing.T, dir string) bool {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, wal.Files))
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}

// changed makes a log that holds 5 to 40 of term 1 and 41 to 58 of term 3.
func changed(t *testing.T, open func(string) (raftstore.Storage, error), orderly bool) string {
	t.Helper()
	dir := made(t)
	st, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for index := uint64(1); index <= 60; index++ {
		err = errors.Join(err, st.Log.StoreLog(entryOf(index, 1)))
	}
	err = errors.Join(err, st.Log.DeleteRange(41, 60), st.Stable.SetUint64([]byte("CurrentTerm"), 3),
		st.Stable.Set([]byte("LastVoteCand"), []byte("b")))
	for index := uint64(41); index <= 58; index++ {
		err = errors.Join(err, st.Log.StoreLog(entryOf(index, 3)))
	}
	if err := errors.Join(err, st.Log.DeleteRange(1, 4)); err != nil {
		t.Fatal(err)
	}
	if !orderly {
		dir = killed(t, dir)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func compareChanged(t *testing.T, st raftstore.Storage) {
	t.Helper()
	first, err := st.Log.FirstIndex()
	last, err2 := st.Log.LastIndex()
	if first != 5 || last != 58 || err != nil || err2 != nil {
		t.Fatalf("acknowledged-entry-lost: %d to %d: %v, %v", first, last, err, err2)
	}
	for index := first; index <= last; index++ {
		want := entryOf(index, 1)
		if index > 40 {
			want = entryOf(index, 3)
		}
		var e raft.Log
		if err := st.Log.GetLog(index, &e); err != nil || e.Term != want.Term || !bytes.Equal(e.Data, want.Data) ||
			!bytes.Equal(e.Extensions, want.Extensions) {
			t.Errorf("acknowledged-entry-lost: entry %d: %v, %v", index, e, err)
		}
	}
	term, err := st.Stable.GetUint64([]byte("CurrentTerm"))
	vote, err2 := st.Stable.Get([]byte("LastVoteCand"))
	if term != 3 || string(vote) != "b" || err != nil || err2 != nil {
		t.Errorf("term %d, vote %q: %v, %v", term, vote, err, err2)
	}
}

// TestDamagedWALIsNamed damages an acknowledged batch: neither way opens the log, the
// error names the files, and bolt is closed again.
func TestDamagedWALIsNamed(t *testing.T) {
	dir := changed(t, openWAL, false)
	path := filepath.Join(dir, "wal-0")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(text, bytes.Repeat([]byte{45, 3}, 50))
	if at < 0 {
		t.Fatal("entry 45 is not in the first file")
	}
	text[at] ^= 1
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for way, open := range ways {
		_, err := open(dir)
		var corrupt *raftstore.CorruptError
		if !errors.As(err, &corrupt) || filepath.Base(corrupt.Path) != wal.Files {
			t.Errorf("%s: %v", way, err)
		}
	}
	text[at] ^= 1
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := openWAL(dir)
	if err != nil {
		t.Fatal(err)
	}
	compareChanged(t, st)
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}
