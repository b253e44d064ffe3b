package data

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/config"
)

// Rejoin is 'trivet rejoin'.
func Rejoin(t *term.Terminal, set *options.Set) *cobra.Command {
	c := &cobra.Command{
		Use:   "rejoin [HOST[:PORT]...]",
		Short: "Make this host a peer again after its cluster was founded again elsewhere",
		Long: "Make this host, whose peer is stopped, a peer again of its cluster, which was founded again on another host by 'trivet snapshot restore' or\n" +
			"'trivet recover'. No token is needed: the host proves who it was with its old certificate. It keeps its name and addresses and gets a new identity.\n\n" +
			"It asks the members that its own data names which of them lives in the higher incarnation; HOST:PORT (7350 if no port is given) is asked as well.\n" +
			"Its old data stays in the data directory as before-rejoin-DATE: what only this peer knew is there and not in the cluster. Killed at any point, repeat it.\n\n" +
			"A host that was named lost at the founding, or was removed, cannot rejoin, nor can one whose name or address another member has by now: clear it with 'trivet leave', then join it with a token.",
		Example: "trivet rejoin\ntrivet rejoin 192.0.2.1:7350",
		Args:    cobra.ArbitraryArgs,
	}
	set.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error { return rejoin(c.Context(), t, set, args) }
	return c
}

func rejoin(ctx context.Context, t *term.Terminal, set *options.Set, args []string) (err error) {
	conf, err := set.Load()
	if err != nil {
		return err
	}
	more := slices.Clone(args)
	for i, hostport := range more {
		if more[i], err = withPort(hostport); err != nil {
			return err
		}
	}
	id, _, err := datadir.Peek(conf.DataDir)
	if err != nil {
		return local.DirError(err) // before the directory is made
	}
	dir, err := local.OpenDir(conf.DataDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	defer func() { err = errors.Join(err, local.HandOver(conf.DataDir)) }()
	made, err := hostOf(t, conf).Rejoin(ctx, dir, more...)
	switch {
	case errors.Is(err, datadir.ErrHasRejoined):
		t.Say("%v; nothing was changed", err)
		sayServe(t, set, conf)
		return nil
	case err != nil:
		return rejoinError(t, dir, id, conf, err)
	}
	t.Say("%s is a peer of cluster %s again, in incarnation %d; what it knew before is in %s", made.Name, made.Cluster, made.Incarnation, made.Aside)
	sayServe(t, set, conf)
	return nil
}

// rejoinError gives a refused or failed rejoin its exit code and remedy. A refusal
// that repeating does not end is recorded, so that 'trivet leave' clears the host.
func rejoinError(t *term.Terminal, dir *datadir.Dir, id datadir.Identity, conf config.Config, err error) error {
	var refused *cluster.JoinError
	var validity *pki.ValidityError
	switch {
	case errors.As(err, &refused) && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusConflict):
		hint := local.HintClear
		if refused.Status == http.StatusConflict {
			hint = fmt.Sprintf("if the peer that it names is gone for good: 'trivet remove PEER' on another peer, then here 'trivet rejoin' again. If it stays, this host cannot be %s: %s", id.Name, local.HintClear)
		}
		departed := dir.Depart(datadir.Departure{How: datadir.DepartedRemoved, Name: id.Name, Cluster: id.Cluster, At: t.Wall()})
		return errors.Join(term.Fail(term.ExitConflict, hint, "%w", err), departed)
	case errors.As(err, &refused):
		return refusedJoin("the cluster", refused)
	case errors.As(err, &validity):
		return term.Fail(term.ExitFailed, "set the clock of the host that is off, for instance with 'chronyc makestep'", "%w", err)
	case errors.Is(err, datadir.ErrNoFounder):
		return term.Fail(term.ExitFailed, "nothing was changed. If the cluster was founded again: start the peer on that host, or name its address: 'trivet rejoin HOST:PORT'. If it was not, this host need not rejoin: 'systemctl start trivet'", "%w", err)
	}
	if known := local.DirError(err); term.HintOf(known) != "" {
		return known
	}
	return term.Fail(term.ExitFailed, fmt.Sprintf("nothing was changed in %s; the rejoin may be repeated", conf.DataDir), "%w", err)
}
