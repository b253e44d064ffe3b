package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/trivet-ha/trivet/raftstore"
)

// keySnapshots is where bolt keeps which snapshots there are.
const keySnapshots = "TrivetSnapshots"

// unfinishedSnapshots matches what an interrupted process left of a snapshot, below the folder
// of the snapshots. The name is raft's own as of 1.8.
const unfinishedSnapshots = "*.tmp"

// note is what is recorded of a snapshot. raft's checksum covers the state alone, not the
// index and the members that stand next to it.
type note struct {
	Index uint64 `json:"index"`
	Sum   string `json:"sum"` // SHA-256 of its meta.json
}

// snapshots are raft's, of which a damaged or missing one is noticed. raft takes the newest
// one that it can read, which may be older than what the log was cut off for.
type snapshots struct {
	raft.SnapshotStore
	dir  string // below which they are
	log  raft.LogStore
	bolt *raftboltdb.BoltStore
}

// openSnapshots opens the snapshots next to a log, and removes what an interrupted process
// left of one.
func openSnapshots(dir string, log raft.LogStore, bolt *raftboltdb.BoltStore) (raft.SnapshotStore, error) {
	inner, err := raft.NewFileSnapshotStore(dir, keepSnapshots, io.Discard)
	if err != nil {
		return nil, err
	}
	left, err := filepath.Glob(filepath.Join(dir, "snapshots", unfinishedSnapshots))
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	if err != nil {
		return nil, err
	}
	s := snapshots{flushed{inner, dir}, dir, log, bolt}
	if notes, err := s.notes(); err != nil || notes != nil {
		return s, err
	}
	return s, s.record()
}

func (s snapshots) meta(id string) string { return filepath.Join(s.dir, "snapshots", id, "meta.json") }

// List implements raft.SnapshotStore: those that are as they were written, the newest
// first. An older one is listed only if the log continues it to where the newest that was written
// ends; else what was acknowledged between the two would be missing.
func (s snapshots) List() ([]*raft.SnapshotMeta, error) {
	notes, err := s.notes()
	if err != nil {
		return nil, err
	}
	all, err := s.SnapshotStore.List()
	if err != nil {
		return nil, err
	}
	first, last, err := bounds(s.log)
	if err != nil {
		return nil, err
	}
	var newest uint64
	var id string
	for name, n := range notes { // order-free: the greatest; of equal ones any
		if n.Index >= newest {
			newest, id = n.Index, name
		}
	}
	var good []*raft.SnapshotMeta
	for _, m := range all { // at most keepSnapshots
		if n, ok := notes[m.ID]; ok && n.Sum != s.sum(m.ID) {
			continue
		}
		if m.Index >= newest || first != 0 && first <= m.Index+1 && last >= newest {
			good = append(good, m)
		}
	}
	if len(good) == 0 && newest > 0 && (first != 1 || last < newest) {
		return nil, &raftstore.CorruptError{Path: filepath.Dir(s.meta(id)),
			Err: errors.New("it is missing, or its meta.json is not as it was written")}
	}
	return good, nil
}

// notes returns what is recorded; nothing where v0.2.0 or an older release wrote them.
func (s snapshots) notes() (map[string]note, error) {
	text, err := s.bolt.Get([]byte(keySnapshots))
	if errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return nil, nil
	}
	notes := make(map[string]note)
	if err == nil {
		err = json.Unmarshal(text, &notes)
	}
	if err != nil {
		return nil, &raftstore.CorruptError{Path: logFile, Err: fmt.Errorf("read %s: %w", keySnapshots, err)}
	}
	return notes, nil
}

// sum returns the checksum of a snapshot's meta.json; "" if it cannot be read.
func (s snapshots) sum(id string) string {
	text, err := os.ReadFile(s.meta(id)) // raft just has
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Create implements raft.SnapshotStore.
func (s snapshots) Create(version raft.SnapshotVersion, index, term uint64, servers raft.Configuration,
	serversIndex uint64, codec raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(version, index, term, servers, serversIndex, codec)
	if err != nil {
		return nil, err
	}
	return &notedSink{sink, s}, nil
}

// notedSink is recorded when it is complete: raft cuts the log off after that.
type notedSink struct {
	raft.SnapshotSink
	in snapshots
}

// Close implements raft.SnapshotSink.
func (s *notedSink) Close() error {
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	return s.in.record()
}

// record notes which snapshots there are.
func (s snapshots) record() error {
	all, err := s.SnapshotStore.List()
	if err != nil {
		return err
	}
	notes := make(map[string]note)
	for _, m := range all { // at most keepSnapshots
		notes[m.ID] = note{m.Index, s.sum(m.ID)}
	}
	text, err := json.Marshal(notes)
	if err == nil {
		err = s.bolt.Set([]byte(keySnapshots), text)
	}
	if err != nil {
		return fmt.Errorf("record the snapshots: %w", err)
	}
	return nil
}
