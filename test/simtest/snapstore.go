package simtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// retainedSnapshots is the number of snapshots that are retained, as on disk.
const retainedSnapshots = 2

// Snapshots is the snapshot store of a mounted Disk; it shares its faults. A
// snapshot exists from the moment its sink's Close has returned. All methods
// may be called concurrently.
type Snapshots struct{ store *Store }

var _ raft.SnapshotStore = (*Snapshots)(nil)

// Create implements raft.SnapshotStore.
func (s *Snapshots) Create(version raft.SnapshotVersion, index, term uint64, servers raft.Configuration,
	serversIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	if version != 1 {
		return nil, fmt.Errorf("create snapshot: unsupported version %d", version)
	}
	if err := s.store.ready(OpSnapshot); err != nil {
		return nil, fmt.Errorf("create snapshot: %w", err)
	}
	return &sink{store: s.store, meta: raft.SnapshotMeta{
		Version:            version,
		ID:                 fmt.Sprintf("%d-%d-%d", term, index, time.Now().UnixMilli()),
		Index:              index,
		Term:               term,
		Configuration:      servers.Clone(),
		ConfigurationIndex: serversIndex,
	}}, nil
}

// List implements raft.SnapshotStore: newest first.
func (s *Snapshots) List() (metas []*raft.SnapshotMeta, err error) {
	err = s.store.read(func(c *content) {
		for _, snap := range c.snapshots {
			metas = append(metas, snap.describe())
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	return metas, nil
}

// Open implements raft.SnapshotStore. The data stays readable when the
// snapshot is dropped meanwhile, like an open file.
func (s *Snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	var found *snapshot
	err := s.store.read(func(c *content) {
		for _, snap := range c.snapshots {
			if snap.meta.ID == id {
				found = snap
			}
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("open snapshot %s: %w", id, err)
	}
	if found == nil {
		return nil, nil, fmt.Errorf("open snapshot %s: %w", id, errNotFound)
	}
	return found.describe(), io.NopCloser(bytes.NewReader(found.data)), nil
}

func (s *snapshot) describe() *raft.SnapshotMeta {
	m := s.meta
	m.Configuration = m.Configuration.Clone()
	return &m
}

// sink collects one snapshot. Raft uses it from one goroutine at a time.
type sink struct {
	store *Store
	meta  raft.SnapshotMeta
	data  []byte
	done  bool
}

// ID implements raft.SnapshotSink.
func (s *sink) ID() string { return s.meta.ID }

// Write implements io.Writer.
func (s *sink) Write(p []byte) (int, error) {
	if s.done {
		return 0, errors.New("write to a closed snapshot")
	}
	if err := s.store.ready(OpSnapshot); err != nil {
		return 0, fmt.Errorf("write snapshot: %w", err)
	}
	s.store.thaw()
	s.data = append(s.data, p...)
	return len(p), nil
}

// Close makes the snapshot durable and visible. Like raft's file store it may
// be called again, to no effect.
func (s *sink) Close() error {
	if s.done {
		return nil
	}
	s.done = true
	s.meta.Size = int64(len(s.data))
	snap := &snapshot{meta: s.meta, data: s.data}
	err := s.store.write(&write{op: OpSnapshot, parts: 1, apply: func(c *content, parts int) {
		if parts > 0 {
			c.keep(snap)
		}
	}})
	if err != nil {
		return fmt.Errorf("close snapshot: %w", err)
	}
	return nil
}

// Cancel forgets the snapshot.
func (s *sink) Cancel() error {
	s.done, s.data = true, nil
	return nil
}
