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
// It implements api.Snapshots.
func (c *Core) Restore(ctx context.Context, r io.Reader) error {
	state, err := fsm.Read(r)
	if err != nil {
		return &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: fmt.Sprintf("the snapshot cannot be read: %v", err), Hint: "nothing was changed"}
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
