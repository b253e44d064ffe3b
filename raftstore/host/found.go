package host

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
)

// founderTerm is the term of the entries that a founding snapshot stands for.
const founderTerm = 1

// Seed writes the first snapshot of a log with these voters, usually one: of a
// new cluster, or of one that is founded again. Raft starts from it as from any
// other. st must be empty.
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
		c.Servers = append(c.Servers,
			raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(v.ID), Address: raft.ServerAddress(v.Address)})
	}
	return c
}

// VerifySeed reads what Seed wrote from the disk again: one snapshot, whose state
// is that of want, and no log.
func VerifySeed(st raftstore.Storage, want fsm.View) error {
	h, err := Replay(st)
	if err != nil {
		return fmt.Errorf("read the new state again: %w", err)
	}
	got := h.State.View()
	if h.snapshots != 1 || h.Last != want.Index() || got.Base() != want.Base() ||
		got.Incarnation() != want.Incarnation() || got.Hash() != want.Hash() {
		return fmt.Errorf(
			"the new state was not written as it is: %d snapshots, index %d (want %d), token base %d (want %d), incarnation %d (want %d)",
			h.snapshots, h.Last, want.Index(), got.Base(), want.Base(), got.Incarnation(), want.Incarnation())
	}
	return nil
}
