package cluster

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/internal/pace"
)

// goneLimit bounds the wait for the daemon that has left: it stops and wipes.
const goneLimit = local.StopLimit + 5*time.Second

// Leave is 'trivet leave'.
func Leave(t *term.Terminal, peer term.Peer, set *options.Set) *cobra.Command {
	var force, dry bool
	c := &cobra.Command{
		Use:   "leave",
		Short: "Take this peer out of its cluster for good",
		Long: "Take this peer out of its cluster for good: it hands leadership on, is removed, stops and wipes its log.\n" +
			"It refuses, with the arithmetic, if the peers that remain could not go on. To stop a peer for a while, stop its service.",
		Example: "trivet leave",
	}
	c.Flags().BoolVar(&force, "force", false, "leave although the rest cannot go on without more peers")
	term.DryRunFlag(c, &dry)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if dry {
			return hintForce(t.DryRun(c.Context(), peer, "members", "POST", "/v1/leave", admin.Leave{Force: force}), force)
		}
		return leave(c.Context(), t, peer, set, force)
	}
	return c
}

func leave(ctx context.Context, t *term.Terminal, peer term.Peer, set *options.Set, force bool) error {
	var s api.Status
	err := peer.Call(ctx, "GET", "/v1/status", nil, &s)
	if err == nil {
		err = peer.Within(term.ShapeLimit).Call(ctx, "POST", "/v1/leave", admin.Leave{Force: force}, nil)
	}
	switch {
	case errors.Is(err, term.ErrNoPeerHere): // it may have stopped since it was asked for its status
		conf, unread := set.Load()
		if unread != nil {
			return err
		}
		if _, _, none := datadir.Peek(conf.DataDir); errors.Is(none, datadir.ErrNoPeer) {
			t.Say("no peer lives in %s; there is nothing to leave", conf.DataDir)
			return nil
		}
		return local.Explained(set, err)
	case err != nil && !errors.Is(err, term.ErrCutOff):
		return hintForce(err, force)
	case set.Port != "" && err != nil:
		return err
	case set.Port != "": // its data directory is on another host
		t.Say("%s has left cluster %s; it stops and wipes its log, after that 'trivet join' there makes it a peer again",
			s.Name, s.Cluster)
		return nil
	}
	after, gone := awaitGone(ctx, s.Directory)
	switch {
	case gone != nil:
		return gone
	case after == peerStays && err != nil: // it stopped for another reason
		return term.Fail(term.ExitOutcomeUnknown,
			"its log says why it stopped: 'journalctl -u trivet'; when it runs again, repeat this", "%w", err)
	case after == peerStays:
		return term.Fail(term.ExitFailed,
			"its log says why: 'journalctl -u trivet'; remove "+filepath.Join(s.Directory, "peer")+" before 'trivet join'",
			"%s has left cluster %s, but its log is not wiped", s.Name, s.Cluster)
	case after == peerUnseen && err != nil:
		return err
	case after == peerUnseen:
		t.Say("%s has left cluster %s; 'trivet join' makes this host a peer again", s.Name, s.Cluster)
		return nil
	}
	t.Say("%s has left cluster %s, and its log is wiped; 'trivet join' makes this host a peer again", s.Name, s.Cluster)
	return nil
}

// hintForce tells about --force where the arithmetic refused.
func hintForce(err error, force bool) error {
	refused, ok := errors.AsType[*api.Error](err)
	if !ok || refused.Code != api.CodeConflict || refused.Hint != "" || force {
		return err
	}
	return term.Fail(term.ExitConflict,
		"bring the missing peers back or join others first ('trivet peers' shows them); --force does it all the same", "%w",
		err)
}

// What a daemon that stopped has left in its data directory.
type remains int

const (
	peerUnseen remains = iota // this user may not look
	peerWiped
	peerStays
)

// awaitGone waits until the daemon has stopped and unlocked its directory, so
// that a join may follow at once.
func awaitGone(ctx context.Context, path string) (remains, error) {
	ctx, cancel := context.WithTimeout(ctx, goneLimit)
	defer cancel()
	const pause = 50 * time.Millisecond
	for {
		dir, err := datadir.Open(path)
		if err == nil {
			has, err := dir.HasPeer()
			switch err = errors.Join(err, dir.Close()); {
			case err != nil:
				return peerUnseen, local.DirError(err)
			case has:
				return peerStays, nil
			}
			return peerWiped, nil
		}
		if !errors.Is(err, datadir.ErrLocked) {
			return peerUnseen, nil
		}
		if !pace.Wait(ctx, pause) {
			return peerUnseen, term.Fail(term.ExitFailed, "see its log; the peer is no member any more",
				"this peer has left, but has not stopped within %v", goneLimit)
		}
	}
}

// Remove is 'trivet remove'.
func Remove(t *term.Terminal, peer term.Peer) *cobra.Command {
	var force, dry bool
	c := &cobra.Command{
		Use:   "remove PEER",
		Short: "Take a dead peer out of the cluster, by name or ID",
		Long: "Take another peer out of the cluster, one that is dead for ever. It refuses while the peer answers the leader: a peer that lives should\n" +
			"leave by itself, 'trivet leave' there. It refuses, too, with the arithmetic, if the peers that remain could not go on.\n\n" +
			"A host that takes the dead one's place, under its name or address, needs no removal: 'trivet token create' here, 'trivet join' there.\n\n" +
			"Of a member before a restore or recovery that was not heard since, it says that the host is lost: the PXE service waits for it no more.",
		Example: "trivet remove h3",
	}
	c.Flags().BoolVar(&force, "force", false,
		"remove it although the rest cannot go on without more peers, or although it lives")
	term.DryRunFlag(c, &dry)
	term.GoneFlag(c, "replace",
		"'trivet token create' here, then 'trivet join HOST --name NAME --token-file FILE' on the host that takes its place")
	c.RunE = func(c *cobra.Command, args []string) error {
		path := "/v1/members/" + url.PathEscape(args[0])
		if force {
			path += "?force=1"
		}
		if dry {
			return hintForce(t.DryRun(c.Context(), peer, "members", "DELETE", path, nil), force)
		}
		if err := peer.Within(term.ShapeLimit).Call(c.Context(), "DELETE", path, nil, nil); err != nil {
			return hintForce(err, force)
		}
		t.Say("%s is no member any more; should it come back, it stops by itself", args[0])
		return nil
	}
	return c
}
