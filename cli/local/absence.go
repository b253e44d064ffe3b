package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
)

// Remedies of a host on which no peer runs.
const (
	hintFound = "'trivet init' founds a cluster here, 'trivet join HOST --token-file FILE' makes this host a peer of one"
	hintJoin  = "'trivet token create' on a peer, then here 'trivet join HOST --token-file FILE'"
	// HintAnew is for a host whose peer is no member any more, or lost its log.
	HintAnew = "'trivet token create' on a peer, then here 'trivet join HOST --replace --token-file FILE'"
)

// Absence explains why there is no peer on this host to be started, and how to make
// it one; why is empty where there is a peer.
func Absence(set *options.Set) (why, hint string) {
	conf, err := set.Peruse()
	if err != nil {
		return "", "" // what is wrong with the configuration other commands say
	}
	dep, departed, err := datadir.Departed(conf.DataDir)
	if err != nil {
		return "", "" // it is for display alone
	}
	_, _, err = datadir.Peek(conf.DataDir)
	bare := errors.Is(err, datadir.ErrNoPeer)
	switch at := dep.At.UTC().Format(time.RFC3339); {
	case departed && dep.How == datadir.DepartedRemoved && !bare:
		return fmt.Sprintf("%s was removed from cluster %s at %s", dep.Name, dep.Cluster, at), HintAnew
	case departed && dep.How == datadir.DepartedSuperseded && !bare:
		return fmt.Sprintf("cluster %s was founded again without %s, which found out at %s", dep.Cluster, dep.Name, at),
			HintAnew
	case departed && bare:
		return fmt.Sprintf("%s left cluster %s at %s", dep.Name, dep.Cluster, at), hintJoin
	case bare:
		return fmt.Sprintf("this host is not initialised, there is no peer in %s", conf.DataDir),
			hintFound + "; where one was, see first that its disk is mounted: 'findmnt -T " + conf.DataDir + "'"
	}
	if err := options.Unfinished(conf.DataDir); term.HintOf(err) != "" {
		return err.Error(), term.HintOf(err)
	}
	return "", ""
}

// Explained replaces the failure to reach a peer by why there is none.
func Explained(set *options.Set, err error) error {
	if !errors.Is(err, term.ErrNoPeerHere) {
		return err
	}
	if why, hint := Absence(set); why != "" {
		return term.Fail(term.ExitFailed, hint, "%w: %s", term.ErrNoPeerHere, why)
	}
	conf, unreadable := set.Peruse()
	if unreadable != nil {
		return err // what is wrong with the configuration other commands say
	}
	faults, _ := app.ServiceFaults(context.Background(), conf) // what cannot be found out is no reason
	if len(faults) == 0 {
		return err
	}
	all := config.Problems(term.Each(faults, func(f app.FileFault) config.Problem { return f.Problem }))
	return term.Fail(term.ExitFailed,
		"mend what is named, look again with 'trivet config check', then 'systemctl start trivet'",
		"%w, and it could not use what its configuration names:\n%w", term.ErrNoPeerHere, all)
}
