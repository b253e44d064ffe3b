package data

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
)

// maxSnapshotFile bounds a snapshot, whose state has to fit in memory.
const maxSnapshotFile = 4 << 30

// restoring are the words of 'trivet snapshot restore'.
type restoring struct {
	path string
	from string   // ID of the file's cluster, if it is not the one here
	lost []string // hosts
	dry  bool
}

func restoreCommand(t *term.Terminal, set *options.Set) *cobra.Command {
	var r restoring
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Found the cluster again from a snapshot, on this host alone; its peer is stopped",
		Long: "Found the cluster of a snapshot again, with its ID and certificate authority, on this host alone: on one whose peer is stopped, or on a new one, which takes its\n" +
			"name and address from the configuration as with 'trivet init'. All peers are stopped before; afterwards this one is started, and the others join it with\n" +
			"a token, those that have their data with 'trivet join --replace'. Every session, lease, join token and fencing token of before is void, and tokens begin above all that the snapshot and\n" +
			"the log of this host know.\n\n" +
			"The file is verified before anything is changed. Every other peer of the snapshot and of the log here is asked whether it runs, at the peers' port and by\n" +
			"gossip. While one runs this is refused. A host that does not answer must be named: --lost says that it is lost for ever and will not be started again.\n\n" +
			"The old state of this host stays in its data directory, as before-restore-DATE, until 'trivet datadir clean'. A restore that was interrupted is repeated.",
		Example: "  trivet snapshot restore /var/backups/trivet/h1.snap\n  trivet snapshot restore h1.snap --lost h2,h3",
	}
	c.Flags().StringVar(&r.from, "from-cluster", "",
		"ID of the snapshot's cluster, where the peer of this host is of another: its state goes on in this host's cluster")
	c.Flags().StringSliceVar(&r.lost, "lost", nil, "hosts that are lost for ever and will not be started again")
	c.Flags().BoolVar(&r.dry, "dry-run", false, "verify and ask, and only show what would happen")
	set.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		r.path = args[0]
		return restore(c.Context(), t, set, r)
	}
	return c
}

func restore(ctx context.Context, t *term.Terminal, set *options.Set, r restoring) (err error) {
	_, conf, err := loadDraft(t, set)
	if err != nil {
		return err
	}
	state, size, err := readSnapshot(t, r.path)
	if err != nil {
		return err
	}
	_, _, err = datadir.Peek(conf.DataDir)
	fresh := errors.Is(err, datadir.ErrNoPeer) // a new host's configuration is to be written
	if fresh {
		if err := hostOf(t, conf).CheckAddress(); err != nil {
			return addressError(err) // before anything is written
		}
	}
	dir, done, err := local.Use(conf.DataDir, r.dry)
	if errors.Is(err, datadir.ErrLocked) {
		return term.Fail(term.ExitConflict,
			"a snapshot is restored while every peer is stopped. On all hosts: 'systemctl stop trivet'; here 'trivet snapshot restore' and "+
				"'systemctl start trivet'; on the others 'trivet join HOST --replace'", "%w", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }() // after a failure, too
	if err := dir.RoomFor(size); err != nil {
		return local.DirError(err)
	}
	host := hostOf(t, conf)
	founding, err := host.PlanRestore(dir, state, r.from)
	if err != nil {
		return local.DirError(err)
	}
	if err := askLostHosts(ctx, t, host, founding, r.lost); err != nil {
		return err
	}
	if r.dry {
		return preview(t, host, founding)
	}
	if fresh {
		w, err := settleFounder(t, set)
		if err == nil {
			err = w.write(t)
		}
		if err != nil {
			return err
		}
		conf = w.conf
	}
	founded, err := refound(t, hostOf(t, conf), dir, founding)
	if err != nil {
		return err
	}
	sayRestored(t, set, conf, founding, fresh)
	return printRecovery(t, founding, founded)
}

// readSnapshot reads and verifies a whole file, and returns its size.
func readSnapshot(t *term.Terminal, path string) (*fsm.State, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, term.Usage("snapshot: %w", err)
	}
	if info.Size() > maxSnapshotFile {
		return nil, 0, term.Usage("snapshot: %s has %d bytes, at most %d can be restored", path, info.Size(), maxSnapshotFile)
	}
	t.Say("verifying %s, %d MiB", path, info.Size()>>20)
	f, state, err := openSnapshot(t, path)
	if err != nil {
		return nil, 0, err
	}
	return state, info.Size(), f.Close()
}

// askLostHosts asks the other peers' hosts, and says whether the founding may go on.
func askLostHosts(ctx context.Context, t *term.Terminal, host datadir.Host, r *datadir.Refounding,
	lost []string) error {
	if len(r.Others) > 0 {
		t.Say("asking %s whether a peer runs there", names(r.Others))
	}
	asked, err := host.Ask(ctx, r)
	if err != nil {
		return fmt.Errorf("%s: ask the other peers: %w", r.Verb, err)
	}
	err = r.Judge(asked, lost)
	if present, ok := errors.AsType[*datadir.PresenceError](err); ok {
		return term.Fail(term.ExitConflict, present.Remedy, "%s: %w", r.Verb, err)
	}
	return err
}

// refound writes the new state and switches to it.
func refound(t *term.Terminal, host datadir.Host, dir *datadir.Dir, r *datadir.Refounding) (*datadir.Refounded, error) {
	if err := options.Unfinished(dir.Path()); err != nil {
		return nil, local.DirError(err)
	}
	t.Say("writing the new state next to the old one")
	host.HandOver = func() error { return local.HandOver(dir.Path()) }
	done, err := host.Found(dir, r)
	return done, local.DirError(err)
}

func preview(t *term.Terminal, host datadir.Host, r *datadir.Refounding) error {
	done, err := host.Preview(r)
	if err != nil {
		return err
	}
	t.Say("dry run: nothing was changed")
	return printRecovery(t, r, done)
}

func sayRestored(t *term.Terminal, set *options.Set, conf config.Config, r *datadir.Refounding, fresh bool) {
	t.Say("%s is the only peer of cluster %s, which goes on from the snapshot", r.Self.Name, r.Self.Cluster)
	if fresh {
		sayServe(t, set, conf)
	} else {
		t.Say("next, here: '%s'", nextCommand(set))
	}
	t.Say(
		"then 'trivet token create' for the others: 'trivet join %s' on new hosts, with --replace on the %d that are not lost",
		r.Self.Address, len(r.Others)-len(r.Lost))
}
