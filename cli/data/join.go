package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/internal/pace"
)

const (
	maxTokenFile = 4 << 10
	joinPause    = 200 * time.Millisecond // between tries of --wait
	// untouched begins the hint of a failed join unless an earlier peer's data was set aside.
	untouched = "nothing was changed; "
)

// Join is 'trivet join'.
func Join(t *term.Terminal, set *options.Set) *cobra.Command {
	var token, file string
	var as joining
	c := &cobra.Command{
		Use:   "join HOST[:PORT]",
		Short: "Make this host a peer of the cluster that answers at HOST",
		Long: "Make this host a peer of the cluster that answers at HOST:PORT (7350 if no port is given), which is any peer of it.\n" +
			"The cluster is recognised by the token before anything secret leaves this host. Where a peer of that cluster lives already nothing changes.\n\n" +
			"A new host that takes the name or the address of a dead member takes its place. --replace is for a host that has the data of its earlier peer, which was removed,\n" +
			"left behind by a recovery or restore, rolled back or damaged: it is set aside in the data directory, as before-join-DATE, before the host is admitted.\n\n" +
			"The configuration file (--config) is completed: options given as flags are written into it, and what the file of the peer at HOST says of the\n" +
			"cluster and this file does not, with the users of the API. What stands in the file stays as it is. --config /dev/null writes none.\n" +
			"Run by root, all files that it makes belong to the user of the service.\n\n" +
			"The token comes from --token-file (- is standard input), $TRIVET_TOKEN or --token. Every user of this host sees arguments in ps, and so the token of\n" +
			"--token; it is for hosts without other users.\n\n" +
			"With --dry-run the peer at HOST is asked what it would give this host and whether the cluster would admit it; the files that would be\n" +
			"written are printed as a diff, secrets hidden. No file is made, and this host does not join.",
		Example: "trivet join 192.0.2.1 --token-file token\ntrivet join h1:7350 --token-file - < token",
	}
	c.Flags().StringVar(&token, "token", "", "join token; every user of this host sees it in ps: prefer --token-file")
	c.Flags().StringVar(&file, "token-file", "", "file that holds the token; - is standard input")
	c.Flags().DurationVar(&as.wait, "wait", 0,
		"keep trying for so long while the cluster cannot be reached, has no leader, or holds a dead peer of this name for alive")
	c.Flags().BoolVar(&as.observer, "observer", false,
		"follow the log, serve and work, count in no majority and never lead; 'trivet members promote' changes it")
	c.Flags().BoolVar(&as.replace, "replace", false,
		"set aside what an earlier peer of this host left, and join as a new one")
	c.Flags().BoolVar(&as.unlessPeer, "unless-peer", false,
		"end at once, without a token, where a member's data is: for what runs before every start, as in a pod")
	term.DryRunFlag(c, &as.dry)
	set.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if as.unlessPeer {
			if lives, err := peerLives(t, set, as.dry); lives || err != nil {
				return err
			}
		}
		text, err := joinToken(t, token, file)
		if err != nil {
			return err
		}
		return join(c.Context(), t, set, args[0], as, text)
	}
	return c
}

// joining is how a host joins.
type joining struct {
	observer, replace, unlessPeer, dry bool
	wait                               time.Duration
}

// peerLives reports whether a peer that is a member, as far as this host knows, has its
// data here. Data that cannot be read is an error: nothing must take its place unasked.
func peerLives(t *term.Terminal, set *options.Set, dry bool) (bool, error) {
	_, conf, err := loadDraft(t, set)
	if err != nil {
		return false, err
	}
	id, _, err := datadir.Peek(conf.DataDir)
	if errors.Is(err, datadir.ErrNoPeer) {
		return false, nil
	}
	if err != nil {
		return false, local.DirError(err)
	}
	if err := notDeparted(conf.DataDir, id); err != nil {
		return false, err
	}
	if finished, err := finishJoin(t, set, conf, dry); finished || err != nil {
		return finished, err
	}
	t.Say("%s is a peer of cluster %s already, in %s; nothing was changed", id.Name, id.Cluster, conf.DataDir)
	return true, nil
}

// joinToken returns the text of the token from wherever it was given.
func joinToken(t *term.Terminal, token, file string) (string, error) {
	switch {
	case token != "" && file != "":
		return "", term.Usage("--token and --token-file are both given: give one")
	case token != "":
		return token, nil
	case file == "":
		if text := t.Variable("TRIVET_TOKEN", ""); text != "" {
			return text, nil
		}
		return "", term.Fail(term.ExitUsage,
			"make one on a peer: 'trivet token create'; then give it with --token-file or TRIVET_TOKEN",
			"no join token was given")
	}
	text, err := t.ReadInput(file, maxTokenFile)
	if err != nil {
		return "", term.Usage("--token-file: %w", err)
	}
	return string(text), nil
}

func join(ctx context.Context, t *term.Terminal, set *options.Set, hostport string, as joining,
	text string) (err error) {
	_, conf, err := loadDraft(t, set)
	if err != nil {
		return err
	}
	token, err := pki.ParseJoinToken(text)
	if err != nil {
		return term.Fail(term.ExitUsage, "copy all of it, or make a new one on a peer: 'trivet token create'", "%w", err)
	}
	if id, cred, err := datadir.Peek(conf.DataDir); err == nil && !as.replace {
		return joinAgain(t, set, id, cred, token, conf, as.dry)
	}
	if err := refuse(options.Refused(conf)); err != nil {
		return err
	}
	if hostport, err = withPort(hostport); err != nil {
		return err
	}
	dir, done, err := local.Use(conf.DataDir, as.dry)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }() // after a failure, too
	host := hostOf(t, conf)
	host.Observer, host.Replace = as.observer, as.replace
	host.HandOver = func() error { return local.HandOver(dir.Path()) }
	host.Judge = func(shared cluster.Shared) error { return judgeShared(t, set, shared, hostport) }
	carryOut := host.Join
	if as.dry {
		carryOut = host.PlanJoin
	}
	var made *datadir.Joining
	var aside *datadir.AsideError
	end := time.Now().Add(as.wait) // no try begins later; one that has begun is brought to its end
	err = pace.Retry{Pause: joinPause}.Do(ctx, func(ctx context.Context, _ int) (again bool, err error) {
		made, err = carryOut(ctx, dir, hostport, token)
		errors.As(err, &aside) // a later try finds nothing to set aside
		return passing(err) && time.Now().Before(end), err
	})
	if err != nil {
		return sayAside(aside, joinError(hostport, err))
	}
	if as.dry {
		return showJoin(t, set, dir, made)
	}
	t.Say("%s is a peer of cluster %s, in %s", made.Name, made.Cluster, conf.DataDir)
	if as.replace {
		t.Say("what an earlier peer left there is in before-join-DATE, until 'trivet datadir clean'")
	}
	if conf, err = configure(t, set, dir, made.Shared); err != nil {
		return err
	}
	sayServe(t, set, conf)
	return nil
}

// configure completes the configuration of a host that has become a peer.
func configure(t *term.Terminal, set *options.Set, dir *datadir.Dir, shared cluster.Shared) (config.Config, error) {
	w, err := settleAgain(t, set, shared)
	if err == nil {
		err = w.write(t)
	}
	if err != nil {
		return w.conf, term.Fail(term.ExitOf(err),
			"this host is a peer now; mend what is named and repeat the join, which completes the configuration",
			"%w", err)
	}
	return w.conf, dir.Configured()
}

// finishJoin finishes a join that was killed after this host had become a peer, or shows what that
// would write, and reports whether there was one.
func finishJoin(t *term.Terminal, set *options.Set, conf config.Config, dry bool) (finished bool, err error) {
	dir, done, err := local.Use(conf.DataDir, dry)
	if errors.Is(err, datadir.ErrLocked) { // the peer runs, or another join is at work
		unfinished := options.Unfinished(conf.DataDir)
		if unfinished == nil {
			return false, nil
		}
		return false, term.Fail(term.ExitConflict,
			"stop the peer ('systemctl stop trivet'), repeat the join, which completes the configuration, and start the peer",
			"%w, and %w", unfinished, err)
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, done()) }() // it gives away what the killed one left
	shared, err := datadir.Unconfigured(conf.DataDir)
	if err != nil || shared == nil {
		return false, local.DirError(err)
	}
	if dry {
		w, err := settleAgain(t, set, *shared)
		if err != nil {
			return false, err
		}
		return true, t.ShowEdits(w.edits())
	}
	if conf, err = configure(t, set, dir, *shared); err != nil {
		return false, err
	}
	t.Say("a join that was killed here is finished")
	sayServe(t, set, conf)
	return true, nil
}

// showJoin shows what a join would write here.
func showJoin(t *term.Terminal, set *options.Set, dir *datadir.Dir, made *datadir.Joining) error {
	if !made.Told {
		t.Warn("the peer that was asked is of v0.2.0: what it gives, and whether it admits this host, is known after the join")
	}
	w, err := settleAgain(t, set, made.Shared)
	if err != nil {
		return err
	}
	return showMaking(t, w, dir, made.Identity)
}

// judgeShared refuses settings of the cluster that are wrong next to those of this host, or that
// cannot be written into its file, before the host becomes a peer. Users are decided with the file of users.
func judgeShared(t *term.Terminal, set *options.Set, shared cluster.Shared, hostport string) error {
	_, conf, err := readDraft(set)
	if err != nil {
		return err
	}
	adopted, _ := conf.Adopt(shared.Settings)
	whole, err := conf.Completed(adopted, "settings of "+hostport)
	var found config.Problems
	if err != nil && !errors.As(err, &found) {
		return err
	}
	found = slices.DeleteFunc(append(found, options.Refused(whole)...),
		func(p config.Problem) bool { return p.Key == keyAuth })
	if err = refuse(found); err == nil {
		silent := *t
		silent.Err = io.Discard // what is to be said is said when it is written
		_, err = settleAgain(&silent, set, shared)
	}
	if err == nil {
		return nil
	}
	return term.Fail(term.ExitUsage, "no peer was made here; mend this host's configuration or flags, and repeat the join",
		"%w", err)
}

// passing reports whether a failure may pass by itself: no peer listens there yet,
// there is no leader, or the session of the dead peer whose place this one takes has
// not ended.
func passing(err error) bool {
	var refused *cluster.JoinError
	return errors.Is(err, syscall.ECONNREFUSED) ||
		errors.As(err, &refused) && (refused.Status == http.StatusServiceUnavailable || refused.Status == http.StatusConflict)
}

// joinAgain answers a join where a peer lives.
func joinAgain(t *term.Terminal, set *options.Set, id datadir.Identity, cred *pki.Credentials, token pki.JoinToken,
	conf config.Config, dry bool) error {
	dir := conf.DataDir
	if err := notDeparted(dir, id); err != nil {
		return err
	}
	if pki.HashCA(cred.CA) != token.CAHash {
		return term.Fail(term.ExitConflict,
			"if this host is to leave that cluster: 'systemctl start trivet' if it does not run, 'trivet leave' (it asks for --force where this is the only peer), then repeat the join; or name another directory with --data-dir",
			"%s holds peer %s of cluster %s, and the token is of another cluster", dir, id.Name, id.Cluster)
	}
	if finished, err := finishJoin(t, set, conf, dry); finished || err != nil {
		return err
	}
	t.Say("%s is a peer of cluster %s already, in %s; nothing was changed", id.Name, id.Cluster, dir)
	if dry {
		return t.ShowEdits([]term.Edit{{Path: dir}})
	}
	sayServe(t, set, conf)
	return nil
}

// notDeparted refuses data of a peer that was removed or left behind.
func notDeparted(dir string, id datadir.Identity) error {
	_, departed, err := datadir.Departed(dir)
	if err != nil {
		return local.DirError(err)
	}
	if departed {
		return term.Fail(term.ExitConflict,
			"repeat the join with --replace: what is left of it is set aside, and this host joins as a new peer",
			"%s holds what is left of peer %s, which is no member of cluster %s any more", dir, id.Name, id.Cluster)
	}
	return nil
}

func withPort(hostport string) (string, error) {
	if _, _, err := net.SplitHostPort(hostport); err == nil {
		return hostport, nil
	}
	host := strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	if host == "" || strings.Contains(host, "/") {
		return "", term.Usage("%q is no address; write HOST or HOST:PORT", hostport)
	}
	return net.JoinHostPort(host, term.PeersPort), nil
}

// joinError gives a refused or failed join its exit code and remedy.
func joinError(hostport string, err error) error {
	var refused *cluster.JoinError
	var validity *pki.ValidityError
	var dns *net.DNSError
	var address *datadir.AddressError
	var timeout net.Error
	var judged *term.Failure
	switch {
	case errors.As(err, &judged):
		return err
	case errors.As(err, &refused):
		return refusedJoin(hostport, refused)
	case errors.As(err, &address):
		return addressError(err)
	case errors.Is(err, pki.ErrCAHash):
		return term.Fail(term.ExitNotAuthorised,
			"the token is of another cluster, or another host answers in its place; the secret was not sent. Compare HOST:PORT with the host that made the token",
			"%w", err)
	case errors.As(err, &validity):
		return term.Fail(term.ExitFailed, "set the clock of the host that is off, for instance with 'chronyc makestep'", "%w",
			err)
	case errors.Is(err, datadir.ErrOlderPeer):
		return term.Fail(term.ExitConflict,
			untouched+"upgrade trivet there first, or name a peer that is upgraded: 'trivet upgrade status' lists them",
			"%w", err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return term.Fail(term.ExitFailed,
			fmt.Sprintf("is 'trivet serve' running there, and is its cluster.listen reached at %s?", hostport), "%w", err)
	case errors.As(err, &dns):
		return term.Fail(term.ExitFailed, "write the address of any peer; see 'trivet members' there", "%w", err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return term.Fail(term.ExitFailed,
			fmt.Sprintf(
				"does a packet filter there, or between the hosts, drop TCP to %s? Look on that host with 'nft list ruleset' and 'iptables-save', then repeat the join",
				hostport),
			"%w", err)
	}
	if known := local.DirError(err); term.HintOf(known) != "" {
		return known
	}
	return term.Fail(term.ExitFailed,
		fmt.Sprintf(untouched+"is %s the peers' port (%s) of a peer that runs? The join may be repeated",
			hostport, term.PeersPort), "%w", err)
}

// sayAside has the hint of a failed join tell where the data of the earlier peer is.
func sayAside(aside *datadir.AsideError, err error) error {
	if aside == nil {
		return err
	}
	return term.Fail(term.ExitOf(err), fmt.Sprintf(
		"the earlier peer's data is in %s, and the cluster may have admitted this host: repeat the join, and do not move it back; %s",
		aside.Folder, strings.TrimPrefix(term.HintOf(err), untouched)), "%w", err)
}

func refusedJoin(hostport string, err *cluster.JoinError) error {
	code, hint := term.ExitFailed, "see the log of the peer at "+hostport
	switch err.Status {
	case http.StatusUnauthorized:
		code, hint = term.ExitNotAuthorised, "make a new one on a peer: 'trivet token create'"
	case http.StatusBadRequest:
		code, hint = term.ExitUsage, untouched+"mend what it names and repeat the join"
	case http.StatusConflict:
		code, hint = term.ExitConflict, untouched+"see 'trivet members' on a peer"
	case http.StatusServiceUnavailable:
		code, hint = term.ExitNoLeader, "see 'trivet status' there; the join may be repeated"
	}
	if err.Hint != "" {
		hint = untouched + term.Printable(err.Hint)
	}
	return term.Fail(code, hint, "%s refused: %w", hostport, err)
}
