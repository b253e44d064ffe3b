package simtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// errNotFound has the text by which raft knows it.
var errNotFound = errors.New("not found")

// Store is a Disk as one process has mounted it: raft's log and stable store.
// Operations wait while the process is paused. All methods may be called
// concurrently.
type Store struct {
	disk    *Disk
	gate    *Gate
	dead    chan struct{} // closed by Crash
	content *content      // guarded by disk.mu; after a crash nobody else's
}

var (
	_ raft.LogStore    = (*Store)(nil)
	_ raft.StableStore = (*Store)(nil)
)

// Snapshots returns the snapshot store of the same disk.
func (s *Store) Snapshots() *Snapshots { return &Snapshots{store: s} }

// write performs one write: it waits for its turn and for the disk, and
// returns once the write is durable. An error means that nothing changed.
func (s *Store) write(w *write) error {
	if err := s.ready(w.op); err != nil {
		return err
	}
	select {
	case s.disk.turn <- struct{}{}:
	case <-s.dead:
		return ErrCrashed
	}
	defer func() { <-s.disk.turn }()
	delay, mounted := s.disk.begin(s, w)
	if !mounted {
		return ErrCrashed
	}
	s.delay(delay)
	s.thaw()
	if !s.disk.commit(s, w) {
		return ErrCrashed
	}
	s.gate.Wait(s.dead)
	return nil
}

// ready waits until the process runs, and fails if it must not do op.
func (s *Store) ready(op Op) error {
	s.gate.Wait(s.dead)
	if s.gone() {
		return ErrCrashed
	}
	return s.disk.fault(op)
}

func (s *Store) gone() bool {
	select {
	case <-s.dead:
		return true
	default:
		return false
	}
}

// delay waits for the time that a write takes.
func (s *Store) delay(d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.dead:
	}
}

// thaw waits while the disk hangs.
func (s *Store) thaw() {
	for hung := s.disk.hung(); hung != nil; hung = s.disk.hung() {
		select {
		case <-hung:
		case <-s.dead:
			return
		}
	}
}

// read looks at the content; the ghost of a dead process may read for ever.
func (s *Store) read(look func(*content)) error {
	if err := s.ready(OpRead); err != nil && !errors.Is(err, ErrCrashed) {
		return fmt.Errorf("read: %w", err)
	}
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	look(s.content)
	return nil
}

// FirstIndex implements raft.LogStore.
func (s *Store) FirstIndex() (index uint64, err error) {
	err = s.read(func(c *content) {
		if len(c.logs) > 0 {
			index = c.logs[0].Index
		}
	})
	return index, err
}

// LastIndex implements raft.LogStore.
func (s *Store) LastIndex() (index uint64, err error) {
	err = s.read(func(c *content) {
		if n := len(c.logs); n > 0 {
			index = c.logs[n-1].Index
		}
	})
	return index, err
}

// GetLog implements raft.LogStore.
func (s *Store) GetLog(index uint64, log *raft.Log) error {
	var found *raft.Log
	err := s.read(func(c *content) {
		if i, ok := c.find(index); ok {
			found = c.logs[i]
		}
	})
	if err != nil {
		return err
	}
	if found == nil {
		return raft.ErrLogNotFound
	}
	*log = *copyLog(found)
	return nil
}

// StoreLog implements raft.LogStore.
func (s *Store) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore.
func (s *Store) StoreLogs(logs []*raft.Log) error {
	batch := make([]*raft.Log, len(logs))
	for i, e := range logs {
		batch[i] = copyLog(e)
	}
	err := s.write(&write{op: OpLog, parts: len(batch), apply: func(c *content, parts int) {
		for _, e := range batch[:parts] {
			c.put(e)
		}
	}})
	if err != nil {
		return fmt.Errorf("store %d entries: %w", len(logs), err)
	}
	return nil
}

// DeleteRange implements raft.LogStore.
func (s *Store) DeleteRange(first, last uint64) error {
	err := s.write(&write{op: OpDelete, parts: 1, apply: func(c *content, parts int) {
		if parts > 0 {
			c.remove(first, last)
		}
	}})
	if err != nil {
		return fmt.Errorf("delete entries %d to %d: %w", first, last, err)
	}
	return nil
}

// Set implements raft.StableStore. A dead process sets what only it can see.
func (s *Store) Set(key, value []byte) error {
	k, v := string(key), bytes.Clone(value)
	w := &write{op: OpStable, parts: 1, apply: func(c *content, parts int) {
		if parts > 0 {
			c.values[k] = v
		}
	}}
	err := s.write(w)
	if errors.Is(err, ErrCrashed) {
		return s.read(func(c *content) { w.apply(c, 1) })
	}
	if err != nil {
		return fmt.Errorf("set %s: %w", k, err)
	}
	return nil
}

// Get implements raft.StableStore.
func (s *Store) Get(key []byte) (value []byte, err error) {
	found := false
	err = s.read(func(c *content) { value, found = c.value(key) })
	if err == nil && !found {
		err = errNotFound
	}
	return value, err
}

// SetUint64 implements raft.StableStore.
func (s *Store) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 implements raft.StableStore.
func (s *Store) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("value of %s has %d bytes, not 8", key, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}
