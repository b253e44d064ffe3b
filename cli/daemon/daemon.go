// Package daemon is the verbs that run peers in this process: serve and dev.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/term"
)

// daemon is a peer that runs, and what may end it.
type daemon struct {
	term    *term.Terminal
	exit    func(code int)
	peer    *app.Peer
	dir     *datadir.Dir
	log     *slog.Logger
	signals <-chan os.Signal
	reloads chan struct{} // one each time that the configuration was read again; capacity 1
}

// run keeps the service manager informed until something ends the peer: a
// signal, its own finding, or ctx.
func (d *daemon) run(ctx context.Context) error {
	n := newNotifier(d.peer, d.log)
	n.ready()
	tick := time.NewTicker(n.interval)
	defer tick.Stop()
	reloading, again := false, false
	for {
		select {
		case <-tick.C:
			n.beat()
		case s := <-d.signals:
			if s == syscall.SIGHUP {
				if again = reloading; !reloading {
					reloading = true
					d.reload(ctx, n)
				}
				continue
			}
			d.log.Info("stopping", "signal", s)
			n.stopping()
			return d.stop(ctx)
		case <-d.reloads:
			n.reloaded()
			if reloading = again; again { // what was written since is not in it, perhaps
				again = false
				d.reload(ctx, n)
			}
		case <-ctx.Done():
			return d.stop(context.WithoutCancel(ctx))
		case why := <-d.peer.Ended():
			n.stopping()
			return d.ended(ctx, why)
		}
	}
}

// reload reads the configuration again, in a goroutine of its own, so that the signs
// of life go on where a file lies on a disk that hangs. The peer logs the result.
func (d *daemon) reload(ctx context.Context, n *notifier) {
	n.reloading()
	go func() { // not waited for at the end: such a disk holds it up
		// A refusal is in the log and in the status.
		_, _ = d.peer.Admin().Configuration.Reload()
		d.reloads <- struct{}{}
	}()
}

// ended answers a peer that found a reason to stop by itself.
func (d *daemon) ended(ctx context.Context, why error) error {
	if errors.Is(why, app.ErrUnknown) {
		// Promise 8: the log's machine never returns, so nothing waits for it.
		err := unknownEntry(why)
		d.term.Complain(err)
		d.exit(term.ExitUnknownEntry)
		return err
	}
	d.log.Warn("peer stops by itself", "reason", why)
	stopped := d.stop(ctx)
	if errors.Is(why, app.ErrLeft) || d.peer.Left() {
		err := d.wipe(stopped)
		d.depart(datadir.DepartedLeft)
		return err
	}
	if stopped != nil { // the exit code is that of the reason
		d.log.Error("stop failed", "err", stopped)
	}
	switch {
	case errors.Is(why, app.ErrRemoved):
		d.depart(datadir.DepartedRemoved)
		return term.Fail(term.ExitConflict, "to make this host a peer again: "+local.HintAnew, "%w", why)
	case errors.Is(why, app.ErrSuperseded):
		d.depart(datadir.DepartedSuperseded)
		return term.Fail(term.ExitConflict,
			"to make this host a peer again: "+local.HintAnew+"; what only this peer knew stays on this host", "%w", why)
	case errors.Is(why, app.ErrRolledBack):
		return term.Fail(term.ExitConflict,
			"as a voter it could elect a leader that lacks acknowledged writes. Put the newer disk back; or, while the others have a leader: "+
				local.HintAnew+"; else see docs/recovery.md", "%w", why)
	default:
		return why
	}
}

// wipe removes the log of a peer that has left, however its stop went: no member
// needs it, and another start would only learn that it was removed.
func (d *daemon) wipe(stopped error) error {
	if stopped != nil {
		d.log.Warn("stop failed; this peer has left, its log is wiped all the same", "err", stopped)
	}
	if err := d.dir.Wipe(); err != nil {
		return local.DirError(err)
	}
	d.log.Info("left the cluster, log wiped", "to_return", "trivet join HOST:PORT --token-file FILE")
	return nil
}

// depart leaves word for 'trivet status' and 'trivet join'. They do without it if
// need be.
func (d *daemon) depart(how string) {
	id := d.peer.Identity()
	err := d.dir.Depart(datadir.Departure{How: how, Name: id.Name, Cluster: id.Cluster, At: d.term.Wall()})
	if err != nil {
		d.log.Warn("record departure failed: 'trivet status' on this host will not name it", "reason", how, "err", err)
	}
}

// stop ends the peer in order, within local.StopLimit. After a second signal or the
// limit it returns with the peer still running: the process ends at once, which
// costs the others an election and nothing else.
func (d *daemon) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, local.StopLimit)
	defer cancel()
	done := make(chan error, 1) // one answer; the receiver may have given up by then
	go func() { done <- d.peer.Stop(ctx) }()
	for {
		select {
		case err := <-done:
			if err != nil {
				return term.Fail(term.ExitFailed, "nothing acknowledged is lost; see the log above", "stop: %w", err)
			}
			d.log.Info("stopped")
			return nil
		case s := <-d.signals:
			if s == syscall.SIGHUP {
				continue
			}
			return gaveUp("a second signal")
		case <-ctx.Done():
			return gaveUp("it did not stop within " + local.StopLimit.String())
		}
	}
}

func gaveUp(why string) error {
	return term.Fail(term.ExitFailed, "nothing acknowledged is lost", "stopped at once: %s", why)
}
