package host

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
)

// founderTerm is the term of the entries that a founding snapshot stands for.
const founderTerm = 1

// Seed writes the first snapshot of a new cluster with these voters, usually
// one. Raft starts from it as from any other. st must be empty.
func Seed(st raftstore.Storage, state *fsm.State, voters ...raftstore.Server) error {
	used, err := raft.HasExistingState(st.Log, st.Stable, st.Snapshots)
	if err != nil {
		return fmt.Errorf("look for an existing log: %w", err)
	}
	if used {
		return errors.New("a log exists here already")
	}
	_, codec := raft.NewInmemTransport(raft.ServerAddress(voters[0].Address)) // encodes addresses, carries nothing
	index := state.View().Index()
	snap, err := st.Snapshots.Create(raft.SnapshotVersionMax, index, founderTerm, configuration(voters), index, codec)
	if err != nil {
		return fmt.Errorf("create snapshot: %w", err)
	}
	return raftstore.SnapshotOf(state.View()).Persist(snap)
}

func configuration(voters []raftstore.Server) (c raft.Configuration) {
	for _, v := range voters {
		c.Servers = append(c.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(v.ID), Address: raft.ServerAddress(v.Address)})
	}
	return c
}

// Recover makes self the only voter of the cluster whose log is in st, for the
// day on which a majority is lost for ever. Every entry of the log counts, also
// one that was never committed. rewrite changes the state before it is written:
// it raises base and incarnation above last, the highest index here (design
// §5.2), so that raft never starts with anything that was granted before.
func Recover(st raftstore.Storage, self raftstore.Server, rewrite func(s *fsm.State, last uint64) error) error {
	last, err := st.Log.LastIndex()
	if err != nil {
		return fmt.Errorf("find the end of the log: %w", err)
	}
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(self.ID)
	c.Logger = hclog.NewNullLogger() // what goes wrong is returned
	m := &replay{state: fsm.New(), last: last, rewrite: rewrite}
	_, codec := raft.NewInmemTransport(raft.ServerAddress(self.Address))
	err = raft.RecoverCluster(c, m, st.Log, st.Stable, st.Snapshots, codec, configuration([]raftstore.Server{self}))
	if m.refused != nil {
		return m.refused // raft does not wrap what a machine says
	}
	if err != nil {
		return &raftstore.CorruptError{Path: "the log or its snapshots", Err: err}
	}
	return nil
}

// replay is the machine of RecoverCluster: it applies what is there and gives
// one snapshot, of the rewritten state.
type replay struct {
	state   *fsm.State
	last    uint64
	rewrite func(*fsm.State, uint64) error
	refused error // of the first entry this binary does not know, or of rewrite
}

// Apply implements raft.FSM.
func (r *replay) Apply(l *raft.Log) any {
	if r.refused != nil {
		return nil
	}
	res := r.state.Apply(fsm.Entry{Index: l.Index, Term: l.Term, Data: l.Data})
	if res.Code == fsm.UnknownEntry {
		r.refused = fmt.Errorf("log entry %d: %w", l.Index, res.Err())
	}
	return res
}

// Restore implements raft.FSM.
func (r *replay) Restore(from io.ReadCloser) error {
	state, err := fsm.Read(from)
	if err == nil {
		r.state = state
	}
	return errors.Join(err, from.Close())
}

// Snapshot implements raft.FSM; RecoverCluster calls it once, at the end.
func (r *replay) Snapshot() (raft.FSMSnapshot, error) {
	if r.refused == nil {
		r.refused = r.rewrite(r.state, max(r.last, r.state.View().Index()))
	}
	if r.refused != nil {
		return nil, r.refused
	}
	return raftstore.SnapshotOf(r.state.View()), nil
}
