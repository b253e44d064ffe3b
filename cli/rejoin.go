package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/config"
)

func (p *program) rejoinCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "rejoin [HOST[:PORT]...]",
		Short: "Make this host a peer again after its cluster was founded again elsewhere",
		Long: "Make this host, whose peer is stopped, a peer again of its cluster, which was founded again on another host by 'trivet snapshot restore' or\n" +
			"'trivet recover'. No token is needed: the host proves who it was with its old certificate. It keeps its name and addresses and gets a new identity.\n\n" +
			"It asks the members that its own data names which of them lives in the higher incarnation; HOST:PORT (7350 if no port is given) is asked as well.\n" +
			"Its old data stays in the data directory as before-rejoin-DATE: what only this peer knew is there and not in the cluster. Killed at any point, repeat it.\n\n" +
			"A host that was named lost at the founding, or was removed, cannot rejoin, nor can one whose name or address another member has by now: clear it with 'trivet leave', then join it with a token.",
		Args: cobra.ArbitraryArgs,
	}
	p.set.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error { return p.rejoin(c.Context(), args) }
	return c
}

func (p *program) rejoin(ctx context.Context, args []string) (err error) {
	conf, err := p.set.Load()
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
		return dirError(err) // before the directory is made
	}
	dir, err := openDir(conf.DataDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	defer func() { err = errors.Join(err, handOver(conf.DataDir)) }()
	made, err := p.host(conf).Rejoin(ctx, dir, more...)
	switch {
	case errors.Is(err, datadir.ErrHasRejoined):
		p.Say("%v; nothing was changed", err)
		p.sayServe(conf)
		return nil
	case err != nil:
		return p.rejoinError(dir, id, conf, err)
	}
	p.Say("%s is a peer of cluster %s again, in incarnation %d; what it knew before is in %s", made.Name, made.Cluster, made.Incarnation, made.Aside)
	p.sayServe(conf)
	return nil
}

// rejoinError gives a refused or failed rejoin its exit code and remedy. A refusal
// that repeating does not end is recorded, so that 'trivet leave' clears the host.
func (p *program) rejoinError(dir *datadir.Dir, id datadir.Identity, conf config.Config, err error) error {
	var refused *cluster.JoinError
	var validity *pki.ValidityError
	switch {
	case errors.As(err, &refused) && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusConflict):
		hint := hintClear
		if refused.Status == http.StatusConflict {
			hint = fmt.Sprintf("if the peer that it names is gone for good: 'trivet remove PEER' on another peer, then here 'trivet rejoin' again. If it stays, this host cannot be %s: %s", id.Name, hintClear)
		}
		departed := dir.Depart(datadir.Departure{How: datadir.DepartedRemoved, Name: id.Name, Cluster: id.Cluster, At: p.Wall()})
		return errors.Join(term.Fail(term.ExitConflict, hint, "%w", err), departed)
	case errors.As(err, &refused):
		return refusedJoin("the cluster", refused)
	case errors.As(err, &validity):
		return term.Fail(term.ExitFailed, "set the clock of the host that is off, for instance with 'chronyc makestep'", "%w", err)
	case errors.Is(err, datadir.ErrNoFounder):
		return term.Fail(term.ExitFailed, "nothing was changed. If the cluster was founded again: start the peer on that host, or name its address: 'trivet rejoin HOST:PORT'. If it was not, this host need not rejoin: 'systemctl start trivet'", "%w", err)
	}
	if known := dirError(err); term.HintOf(known) != "" {
		return known
	}
	return term.Fail(term.ExitFailed, fmt.Sprintf("nothing was changed in %s; the rejoin may be repeated", conf.DataDir), "%w", err)
}
