package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/raftguard"
)

// damages is how many times a peer's files are damaged, for each log store, unless
// TRIVET_SIM_DAMAGES says otherwise: 20,000 are nothing out of the ordinary.
const damages = 80

// acknowledged is what a peer has promised to keep.
type acknowledged struct {
	last uint64
	hash [32]byte
	term uint64
	vote string
	snap raft.SnapshotMeta // the newest, as far as raft believes it
}

// promised reads what storage holds.
func promised(st raftstore.Storage) (a acknowledged, err error) {
	h, err := Replay(st)
	if err != nil {
		return a, err
	}
	term, err := st.Stable.GetUint64([]byte("CurrentTerm"))
	vote, err2 := st.Stable.Get([]byte("LastVoteCand"))
	snaps, err3 := st.Snapshots.List()
	if err := errors.Join(err, err2, err3); err != nil {
		return a, err
	}
	newest := raft.SnapshotMeta{Index: snaps[0].Index, Term: snaps[0].Term,
		ConfigurationIndex: snaps[0].ConfigurationIndex}
	return acknowledged{h.Last, h.State.View().Hash(), term, string(vote), newest}, nil
}

// peerFiles returns a folder of a peer that was killed, and what it had promised: two snapshots
// and entries behind them, some not carried over to bolt yet where that is how they are
// written. Some hold bytes of the very files, as if a client knew them.
func peerFiles(t *testing.T, open func(string) (raftstore.Storage, error)) (dir string, want acknowledged) {
	t.Helper()
	dir = t.TempDir()
	st, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	state := foundedState(t)
	if err := errors.Join(Seed(st, state, self), st.Close()); err != nil {
		t.Fatal(err)
	}
	if st, err = open(dir); err != nil {
		t.Fatal(err)
	}
	log := raftguard.NewLog(st.Log)
	for index := state.View().Index() + 1; index <= 400; index++ {
		data, err := fsm.Encode(fsm.Header{}, settings.PutSetting{Key: fmt.Sprint("k", index%50), Value: fmt.Sprint(index)})
		if err != nil {
			t.Fatal(err)
		}
		e := &raft.Log{Index: index, Term: 2, Type: raft.LogCommand, Data: data}
		if index%3 == 0 { // what is no command may hold anything
			e.Type, e.Data = raft.LogNoop, bytesOfFiles(t, dir, int(index))
		}
		if err := log.StoreLog(e); err != nil {
			t.Fatal(err)
		}
		state.Apply(fsm.Entry{Index: index, Term: 2, Data: data})
		if index == 150 || index == 300 {
			if err := errors.Join(snapshotAt(st, index), log.DeleteRange(1, index-20)); err != nil {
				t.Fatal(err)
			}
		}
	}
	err = errors.Join(st.Stable.SetUint64([]byte("CurrentTerm"), 7), st.Stable.Set([]byte("LastVoteCand"), []byte("b")))
	if err != nil {
		t.Fatal(err)
	}
	if want, err = promised(st); err != nil || want.last != 400 {
		t.Fatal(want, err)
	}
	dir = killed(t, dir)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, want
}

// bytesOfFiles returns the beginning of a file of the write-ahead log, or of bolt's.
func bytesOfFiles(t *testing.T, dir string, shift int) []byte {
	t.Helper()
	for _, name := range []string{"wal-0", "wal-1", logFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) || err == nil && shift%2 == 0 && name == "wal-0" {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return append(make([]byte, shift%8), text[:600]...)
	}
	return nil
}

// snapshotAt writes a snapshot of what storage holds, up to an index.
func snapshotAt(st raftstore.Storage, index uint64) error {
	h, err := Replay(st)
	if err != nil {
		return err
	}
	_, codec := raft.NewInmemTransport("a")
	sink, err := st.Snapshots.Create(raft.SnapshotVersionMax, index, 2, configuration([]raftstore.Server{self}), 1, codec)
	if err != nil {
		return err
	}
	return raftstore.SnapshotOf(h.State.View()).Persist(sink)
}

// tree is all files of a folder, by their paths in it.
type tree map[string][]byte

func readTree(t *testing.T, dir string) tree {
	t.Helper()
	out := make(tree)
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		out[path], err = os.ReadFile(filepath.Join(dir, path))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// write writes the files, whose zeros take no room.
func (f tree) write(dir string) error {
	for path, text := range f { // order-free: files
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		end := len(bytes.TrimRight(text, "\x00"))
		if err := errors.Join(os.WriteFile(path, text[:end], 0o600), os.Truncate(path, int64(len(text)))); err != nil {
			return err
		}
	}
	return nil
}

// damage changes one file in one way, and says how. kept is where what is not zero ends.
func (f tree) damage(r *rand.Rand) string {
	paths := slices.Sorted(maps.Keys(f))
	path := paths[r.IntN(len(paths))]
	text := bytes.Clone(f[path])
	kept := len(bytes.TrimRight(text, "\x00"))
	at := r.IntN(kept)
	switch n := r.IntN(20); {
	case n < 12:
		bit := r.IntN(8)
		text[at] ^= 1 << bit
		f[path] = text
		return fmt.Sprintf("bit %d of byte %d of %s flipped", bit, at, path)
	case n < 14:
		f[path] = text[:at]
		return fmt.Sprintf("%s cut to %d of %d bytes", path, at, len(text))
	case n < 16:
		end := min(at+1+r.IntN(8192), len(text))
		clear(text[at:end])
		f[path] = text
		return fmt.Sprintf("bytes %d to %d of %s zeroed", at, end, path)
	case n < 18:
		delete(f, path)
		return path + " removed"
	}
	other := paths[r.IntN(len(paths))]
	f[path], f[other] = f[other], f[path]
	return path + " and " + other + " exchanged"
}

// TestDamageIsNeverSilent damages one file of a peer that was killed: it opens with all that it has
// promised, or refuses with an error that names what is damaged.
func TestDamageIsNeverSilent(t *testing.T) {
	count := damages
	if text := os.Getenv("TRIVET_SIM_DAMAGES"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for way, open := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			dir, want := peerFiles(t, open)
			files := readTree(t, dir)
			outcomes := map[string]int{}
			for seed := range count {
				damaged := maps.Clone(files)
				what := damaged.damage(rand.New(rand.NewPCG(uint64(seed), 1)))
				outcome, err := judge(t, damaged, want)
				if err != nil {
					t.Errorf("damage-is-silent: seed %d: %s: %v", seed, what, err)
				}
				outcomes[outcome]++
			}
			t.Log(outcomes)
		})
	}
}

// TestDamageThatBoltOverlooks makes the changes that leave bolt, or raft, with a shorter log, an older
// state or another vote, wherever in the files each can be made: at least one is named, and none is silent.
func TestDamageThatBoltOverlooks(t *testing.T) {
	dir, want := peerFiles(t, Open)
	files := readTree(t, dir)
	log := files[logFile]
	flips := make(map[string][]tree)
	flip := func(kind, path string, at int, bit byte) {
		damaged := maps.Clone(files)
		damaged[path] = bytes.Clone(files[path])
		damaged[path][at] ^= bit
		flips[kind] = append(flips[kind], damaged)
	}
	each := func(kind, path, of string, at int) {
		for from := 0; ; {
			n := bytes.Index(files[path][from:], []byte(of))
			if n < 0 {
				return
			}
			from += n + len(of)
			flip(kind, path, from+at, 1)
		}
	}
	page := os.Getpagesize()
	flip("a meta page", logFile, pageHeader+metaLen-1, 1)
	flip("a meta page", logFile, page+pageHeader+metaLen-1, 1)
	for at := 2 * page; at < len(log); at += page {
		for bit := byte(1); bit < 1<<6; bit <<= 1 {
			flip("the count of a page", logFile, at+10, bit)
		}
	}
	each("the name of a bucket", logFile, "log", 0)
	each("the term", logFile, "CurrentTerm", 7)
	each("the vote", logFile, "LastVoteCand", 0)
	each("the index of an entry", logFile, "Index", 8)
	for path := range files { // order-free: each is damaged by itself
		if filepath.Base(path) == "meta.json" {
			each("the index of a snapshot", path, `"Index":`, 2)
		}
		without := maps.Clone(files)
		delete(without, path)
		flips[path+" is missing"] = []tree{without}
	}
	for kind, damaged := range flips { // order-free: each is judged by itself
		named := 0
		for n, files := range damaged {
			outcome, err := judge(t, files, want)
			if err != nil {
				t.Errorf("damage-is-silent: %s, place %d: %v", kind, n, err)
			}
			if outcome == "named" {
				named++
			}
		}
		// without the older of two snapshots nothing is missing
		if older := strings.Contains(kind, "-150-"); named == 0 && !older {
			t.Errorf("damage-is-silent: %s: none of %d places was noticed", kind, len(damaged))
		}
	}
}

// TestEmptyPageIsZeros: a page whose count became 0 is not one that was written empty.
func TestEmptyPageIsZeros(t *testing.T) {
	dir, _ := peerFiles(t, Open)
	log := readTree(t, dir)[logFile]
	changed := 0
	for at := 2 * os.Getpagesize(); at < len(log); at += os.Getpagesize() {
		text := bytes.Clone(log)
		clear(text[at+10 : at+12])
		if checkLayout(bytes.NewReader(text), int64(len(text))) != nil {
			changed++
		}
	}
	if changed < 10 { // those that are in use
		t.Errorf("damage-is-silent: of the pages that became empty %d were noticed", changed)
	}
	if err := checkLayout(bytes.NewReader(log), int64(len(log))); err != nil {
		t.Error(err)
	}
}

// TestOlderSnapshotIsNotEnough: the newest snapshot cannot be read, and the log was cut off for it. raft
// takes the next one that the store gives.
func TestOlderSnapshotIsNotEnough(t *testing.T) {
	dir, _ := peerFiles(t, Open)
	st, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	damaged := 0
	for path, text := range readTree(t, dir) { // order-free: one matches
		if strings.Contains(path, "-300-") && filepath.Base(path) == "state.bin" {
			text[len(text)/2] ^= 1
			damaged++
			if err := os.WriteFile(filepath.Join(dir, path), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := st.Snapshots.List()
	if err != nil || damaged != 1 {
		t.Fatal(damaged, err)
	}
	for _, m := range all {
		if _, from, err := st.Snapshots.Open(m.ID); err == nil {
			t.Errorf("damage-is-silent: raft would begin with the snapshot of index %d: %v", m.Index, from.Close())
		}
	}
}

// judge opens files as one of the two ways does.
func judge(t *testing.T, files tree, want acknowledged) (outcome string, err error) {
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := files.write(dir); err != nil {
		return "", err
	}
	st, err := openWAL(dir)
	if err == nil {
		var got acknowledged
		got, err = promised(st)
		if err == nil && !reflect.DeepEqual(got, want) {
			return "silent", errors.Join(fmt.Errorf("it holds %v, not %v", got, want), st.Close())
		}
		if failed := st.Close(); failed != nil {
			return "", failed
		}
	}
	var corrupt *raftstore.CorruptError
	switch {
	case err == nil:
		return "whole", nil
	case errors.As(err, &corrupt):
		return "named", nil
	}
	return "unnamed", fmt.Errorf("what is damaged is not named: %w", err)
}
