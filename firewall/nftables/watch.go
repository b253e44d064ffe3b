package nftables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Bounds of the watch.
const (
	// watchBuffer is how many bytes of notifications may wait.
	watchBuffer = 1 << 20
	// watchAgain is the pause before a watch that broke off begins again.
	watchAgain = time.Second
)

// Watch notifies when another program may have changed our table, by the kernel's
// notifications. Our own transactions do not count, unless they rebuilt the table
// and so emptied the lists.
type Watch struct {
	filter  *Filter
	log     *slog.Logger
	conn    *netlink.Conn
	changed chan struct{} // holds one: more changes before it is received are the same news

	// touched is set by a part of a transaction that counts, until its end. It
	// belongs to Run.
	touched bool
}

// Watch begins to listen: what happens from now on will be told by Changed,
// once Run runs, which ends it too.
func (f *Filter) Watch(log *slog.Logger) (*Watch, error) {
	w := &Watch{filter: f, log: logs.Limit(log), changed: make(chan struct{}, 1)}
	if err := w.subscribe(); err != nil {
		return nil, err
	}
	return w, nil
}

// Changed yields after each change that counts, or several of them. It is never
// closed.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// Close ends a watch that Run was never called for.
func (w *Watch) Close() error { return w.conn.Close() }

// Run listens until ctx ends. One goroutine calls it, once.
func (w *Watch) Run(ctx context.Context) {
	for {
		err := w.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, unix.ENOBUFS) { // as after a commit of 10,000 MACs: no fault of the host
			err = w.subscribe()
		} else {
			pace.Wait(ctx, watchAgain)
		}
		for err != nil && ctx.Err() == nil {
			w.log.Warn("watch PXE filter failed, retrying", "err", err)
			if err = w.subscribe(); err != nil {
				pace.Wait(ctx, watchAgain)
			}
		}
		w.touched = false
		firewall.Tell(w.changed) // there may have been changes meanwhile
	}
}

func (w *Watch) subscribe() error {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: w.filter.netns})
	if err != nil {
		return fmt.Errorf("watch the PXE filter: %w", explain(err))
	}
	if err := errors.Join(conn.SetReadBuffer(watchBuffer), conn.JoinGroup(unix.NFNLGRP_NFTABLES)); err != nil {
		return errors.Join(fmt.Errorf("watch the PXE filter: %w", explain(err)), conn.Close())
	}
	w.conn = conn
	return nil
}

// listen receives until the socket fails or ctx ends, and closes it. To lose a
// notification is a failure: the kernel says so once, and goes on losing them
// in silence until the last one that waits is read.
func (w *Watch) listen(ctx context.Context) error {
	conn := w.conn
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetReadDeadline(time.Unix(1, 0)) // ends Receive; fails only on a closed socket
	})
	defer stop()
	for {
		messages, err := conn.Receive()
		for _, m := range messages {
			err = errors.Join(err, w.handleNotification(m))
		}
		if err != nil {
			return errors.Join(err, conn.Close())
		}
	}
}

// handleNotification deals with one notification. The kernel sends the parts of a transaction
// first and then its generation, with the process that asked for it.
func (w *Watch) handleNotification(m netlink.Message) error {
	kind, ok := kindOf(m)
	if !ok {
		return nil
	}
	if kind != unix.NFT_MSG_NEWGEN {
		counts, err := w.counts(m, kind)
		w.touched = w.touched || counts
		return err
	}
	if !w.touched {
		return nil
	}
	w.touched = false
	firewall.Tell(w.changed)
	c, err := parseCommit(m)
	if !w.filter.ports.has(m.Header.PID) {
		w.log.Warn("another process changed the PXE filter", "process", c.process, "pid", c.pid)
	}
	return err
}

// counts reports whether a part of a transaction is about our table and not our
// own doing.
func (w *Watch) counts(m netlink.Message, kind int) (bool, error) {
	if m.Data[0] != w.filter.table.family {
		return false, nil
	}
	name, err := tableOf(m)
	if err != nil || name != w.filter.table.name {
		return false, err
	}
	rebuilt := kind == unix.NFT_MSG_NEWTABLE || kind == unix.NFT_MSG_DELTABLE
	return rebuilt || !w.filter.ports.has(m.Header.PID), nil
}
