package raftstore

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/fsm"
)

// errHalted is what a machine that met an unknown entry answers from then on.
var errHalted = errors.New("the log stands still: it holds what this binary does not know")

// published is one immutable state and the bell that rings when a newer one
// takes its place.
type published struct {
	view fsm.View
	next chan struct{} // closed by the publisher of the next state
}

// machine adapts fsm.State to raft. Raft calls Apply, ApplyBatch, Snapshot and
// Restore from one goroutine; everybody else reads the published view.
type machine struct {
	state   *fsm.State
	current atomic.Pointer[published]
	fatal   func(error)
	halted  bool
	unread  error         // why a snapshot was not taken: a newer binary wrote it
	release chan struct{} // closed by Store.Close, so that a halted Apply ends with the store
}

var _ raft.BatchingFSM = (*machine)(nil)

func newMachine(fatal func(error)) *machine {
	m := &machine{state: fsm.New(), fatal: fatal, release: make(chan struct{})}
	m.current.Store(&published{view: m.state.View(), next: make(chan struct{})})
	return m
}

func (m *machine) publish() {
	old := m.current.Swap(&published{view: m.state.View(), next: make(chan struct{})})
	close(old.next)
}

// Apply implements raft.FSM.
func (m *machine) Apply(l *raft.Log) any { return m.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch implements raft.BatchingFSM: readers see the whole batch or none
// of it, and waiters wake once.
func (m *machine) ApplyBatch(logs []*raft.Log) []any {
	results := make([]any, len(logs))
	for i, l := range logs {
		results[i] = m.apply(l)
	}
	if !m.halted {
		m.publish()
	}
	return results
}

func (m *machine) apply(l *raft.Log) any {
	if l.Type != raft.LogCommand {
		return nil
	}
	if m.halted {
		return fsm.Result{Code: fsm.UnknownEntry, Message: errHalted.Error()}
	}
	res := m.state.Apply(fsm.Entry{Index: l.Index, Term: l.Term, Data: l.Data})
	if res.Code == fsm.UnknownEntry {
		m.halt(fmt.Errorf("log entry %d: %w", l.Index, res.Err()))
	}
	return res
}

// halt keeps promise 8: tell main, and never return to raft while the process
// lives. To skip the entry would let this peer's state part from the others'.
func (m *machine) halt(why error) {
	m.publish() // what came before the entry is good
	m.halted = true
	m.fatal(why)
	<-m.release
}

// Snapshot implements raft.FSM: a view is immutable, so this only takes a reference.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	if m.halted {
		return nil, errHalted
	}
	return viewSnapshot{m.state.View()}, nil
}

// Restore implements raft.FSM. The snapshot of a newer binary halts this machine
// as an unknown entry does: raft would go back to an older snapshot, or go on
// without this one.
func (m *machine) Restore(r io.ReadCloser) error {
	defer r.Close()
	if m.halted {
		return errHalted
	}
	state, err := fsm.Read(r)
	if errors.Is(err, fsm.UnknownEntry) {
		m.halted, m.unread = true, err
		m.fatal(err)
	}
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	m.state = state
	m.publish()
	return nil
}

// SnapshotOf returns the snapshot that holds a view.
func SnapshotOf(v fsm.View) raft.FSMSnapshot { return viewSnapshot{v} }

// viewSnapshot streams one view; raft persists it while entries are applied.
type viewSnapshot struct{ view fsm.View }

// Persist implements raft.FSMSnapshot.
func (s viewSnapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := s.view.WriteTo(sink); err != nil {
		return errors.Join(fmt.Errorf("write snapshot: %w", err), sink.Cancel())
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot; a view needs none.
func (viewSnapshot) Release() {}
