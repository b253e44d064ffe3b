package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/trivet-ha/trivet/test/sandbox/trio"
	"github.com/trivet-ha/trivet/test/testenv"
)

// size is how many peers a cluster has here.
const size = trio.Size

// formLimit bounds what it takes until three peers vote.
const formLimit = 30 * time.Second

// poll is the pause between two looks at something that is waited for.
const poll = 5 * time.Millisecond

// cluster is a trio, and the file that takes what its peers log.
type cluster struct {
	*trio.Trio
	log *os.File
}

// newCluster founds a cluster below root whose peers keep their logs in this
// raft.log_store, and waits until all three vote.
func newCluster(ctx context.Context, root, store string) (c *cluster, err error) {
	f, err := os.Create(filepath.Join(root, "peers.log"))
	if err != nil {
		return nil, fmt.Errorf("log of the peers: %w", err)
	}
	hosts, err := trio.New(root, slog.New(slog.NewTextHandler(f, nil)))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	for _, h := range hosts {
		h.Config.Raft.LogStore = store
		h.GaveUp = func(why error) {
			fmt.Fprintln(os.Stderr, why)
			os.Exit(1)
		}
	}
	c = &cluster{hosts, f}
	ctx, cancel := context.WithTimeout(ctx, formLimit)
	defer cancel()
	if err := c.Form(ctx); err != nil {
		return nil, errors.Join(err, c.close(ctx))
	}
	return c, nil
}

func (c *cluster) close(ctx context.Context) error {
	return errors.Join(c.Close(ctx), c.log.Close())
}

// until waits for cond, looking every few milliseconds.
func until(ctx context.Context, what string, cond func() bool) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
	return nil
}

// freePorts returns loopback addresses of ports that nothing else gets until this program
// ends. An ephemeral port would not do: a connection from one of an attack's many addresses
// may have held it, and for a minute after its end a peer that listens on every address of
// the host is refused.
func freePorts(n int) ([]string, error) {
	var out []string
	for range n {
		address, _, err := testenv.ReservePort()
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		out = append(out, address)
	}
	return out, nil
}
