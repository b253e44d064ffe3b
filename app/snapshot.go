package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
)

// Save writes a linearizable copy of the state to w. It implements
// api.Snapshots.
func (c *Core) Save(ctx context.Context, w io.Writer) error {
	v, err := c.Store.Read(ctx)
	if err != nil {
		return err
	}
	if _, err := v.WriteTo(w); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// Restore replaces the state of the whole cluster with the one in r, rewritten
// before raft sees it (design §5.2): base is raised above every token that
// either history granted, and nothing granted before is valid after. Members,
// keys and incarnation stay those of this cluster, whose hosts they describe.
// The snapshot of a cluster other than this one is refused unless from names
// it. It implements api.Snapshots.
func (c *Core) Restore(ctx context.Context, r io.Reader, from string) error {
	state, err := fsm.Read(r)
	if err != nil {
		return &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: fmt.Sprintf("the snapshot cannot be read: %v", err), Hint: "nothing was changed"}
	}
	if err := foreign(state.View(), c.Store.View(), from); err != nil {
		return err
	}
	if err := state.Adopt(c.Store.View()); err != nil {
		return err
	}
	last := c.Store.Stats().LastIndex
	if err := state.Refound(fsm.Refound{Index: last, UnixMillis: c.wall().UnixMilli()}); err != nil {
		return err
	}
	err = c.Store.Restore(ctx, state)
	if errors.Is(err, raftstore.ErrNotLeader) {
		return &api.Error{Status: http.StatusConflict, Code: api.CodeConflict, Message: "a snapshot is restored on the leader", Hint: "see 'trivet status' for who leads"}
	}
	return err
}

// foreign refuses a snapshot that is not of the present cluster's own past. One
// of a higher incarnation is not, either: a recovery went on without the peers
// of this one, whose hosts may act on other machines by now.
func foreign(theirs, ours fsm.View, from string) error {
	refused := func(format string, args ...any) error {
		return &api.Error{Status: http.StatusConflict, Code: api.CodeConflict, Message: fmt.Sprintf(format, args...),
			Hint: "nothing was changed. If these hosts are to go on in its place, and its own peers will not come back: --from-cluster " + theirs.ClusterID()}
	}
	switch {
	case theirs.ClusterID() == "":
		return &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: "the snapshot is of no cluster", Hint: "nothing was changed"}
	case from != "" && from != theirs.ClusterID():
		return refused("the snapshot is of cluster %s, not of %s as was said", theirs.ClusterID(), from)
	case from != "":
		return nil
	case theirs.ClusterID() != ours.ClusterID():
		return refused("the snapshot is of cluster %s, this is cluster %s", theirs.ClusterID(), ours.ClusterID())
	case theirs.Incarnation() > ours.Incarnation():
		return refused("the snapshot is of incarnation %d of this cluster, this is %d: the cluster went on elsewhere", theirs.Incarnation(), ours.Incarnation())
	}
	return nil
}
