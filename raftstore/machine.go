package raftstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

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

// views are the states that readers see, one after the other. Its methods may be called
// concurrently, publish by one goroutine.
type views struct {
	current atomic.Pointer[published]
	// proven is the newest moment of which this peer has proven that it has all that was
	// acknowledged before, anywhere; nil: there is none.
	proven atomic.Pointer[time.Time]
}

func (p *views) publish(v fsm.View) {
	old := p.current.Swap(&published{view: v, next: make(chan struct{})})
	if old != nil {
		close(old.next)
	}
}

// View returns the state as this peer has applied it: a stale read. It never
// blocks and never fails.
func (p *views) View() fsm.View { return p.current.Load().view }

// Changed returns the present view and a channel that is closed as soon as a
// newer one is published.
func (p *views) Changed() (fsm.View, <-chan struct{}) {
	now := p.current.Load()
	return now.view, now.next
}

// Wait returns the first view in which cond holds, or the cause of ctx's end.
func (p *views) Wait(ctx context.Context, cond func(fsm.View) bool) (fsm.View, error) {
	for {
		v, next := p.Changed()
		if cond(v) {
			return v, nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return v, context.Cause(ctx)
		}
	}
}

// machine adapts fsm.State to raft. Raft calls Apply, ApplyBatch, Snapshot and
// Restore from one goroutine; everybody else reads the published view.
type machine struct {
	*views
	state  *fsm.State
	fatal  func(error)
	halted bool
	unread error           // why a snapshot was not taken: a newer binary wrote it
	life   context.Context // ends when Store.Close begins, which waits for what raft does here
}

var _ raft.BatchingFSM = (*machine)(nil)

func newMachine(life context.Context, fatal func(error)) *machine {
	m := &machine{views: &views{}, state: fsm.New(), fatal: fatal, life: life}
	m.publish(m.state.View())
	return m
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
		m.publish(m.state.View())
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
		// Promise 8: tell main, and never return to raft while the process lives. To skip
		// the entry would let this peer's state part from the others'.
		m.publish(m.state.View()) // what came before the entry is good
		m.halted = true
		m.fatal(fmt.Errorf("log entry %d: %w", l.Index, res.Err()))
		<-m.life.Done()
	}
	return res
}

// Snapshot implements raft.FSM: a view is immutable, so this only takes a reference.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	if m.halted {
		return nil, errHalted
	}
	return viewSnapshot{m.state.View(), m.life}, nil
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
	m.publish(m.state.View())
	return nil
}

// SnapshotOf returns the snapshot that holds a view.
func SnapshotOf(v fsm.View) raft.FSMSnapshot { return viewSnapshot{v, context.Background()} }

// viewSnapshot streams one view; raft persists it while entries are applied.
type viewSnapshot struct {
	view fsm.View
	life context.Context // ends with the store, and the snapshot is given up: the log has it all
}

// Persist implements raft.FSMSnapshot.
func (s viewSnapshot) Persist(sink raft.SnapshotSink) error {
	ended := func() error { return context.Cause(s.life) }
	if _, err := fsm.WriteUntil(ended, s.view, sink); err != nil {
		return errors.Join(fmt.Errorf("write snapshot: %w", err), sink.Cancel())
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot; a view needs none.
func (viewSnapshot) Release() {}
