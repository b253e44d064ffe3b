package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
)

// Serve is 'trivet serve'.
func Serve(t *term.Terminal, set *options.Set, exit func(int)) *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the peer that lives in the data directory",
		Long: "Run the peer that lives in the data directory, in the foreground, with its log on standard error.\n" +
			"SIGTERM or SIGINT stop it in order: it hands leadership on and changes no membership. A second one stops it at once.\n" +
			"SIGHUP makes it read its configuration again, as 'trivet config reload' does, which also says what came of it.",
		Example: "trivet serve\ntrivet serve --config ./trivet.yaml --log-level debug",
	}
	set.Flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return serve(c.Context(), t, set, exit) }
	return c
}

// serve runs a peer until a signal, or the peer itself, ends it.
func serve(ctx context.Context, t *term.Terminal, set *options.Set, exit func(int)) error {
	term.OutliveReaders()
	conf, err := set.LoadServable()
	if err != nil {
		return err
	}
	journal := newJournal(t.Err, conf.Log)
	t.Err = journal.talkOn(t.Err)
	defer journal.flush()
	if err := journal.keepLines(t.Random); err != nil {
		return err
	}
	log := journal.logger
	if err := keepOutOfDumps(); err != nil {
		log.Warn("forbid core dumps failed: they would hold keys and passwords", "err", err)
	}
	if _, _, err := datadir.Peek(conf.DataDir); errors.Is(err, datadir.ErrNoPeer) {
		return local.DirError(err) // before the directory is made
	}
	dir, err := openDirectory(ctx, t, log, conf.DataDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := options.Unfinished(conf.DataDir); err != nil {
		return local.DirError(err)
	}
	signals := make(chan os.Signal, 4) // a stop, its repeat, and some SIGHUP; never closed
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	if t.Variable("GOGC", "") == "" && t.Variable("GOMEMLIMIT", "") == "" { // else Go's variables bound the memory
		defer app.BoundGarbage()()
	}
	peer, err := app.New(ctx, app.Options{
		Config: conf, Dir: dir, Binary: t.Version, Logger: log, Wall: t.Wall, Random: t.Random,
		Exit: func(code int, why error) { exitNow(t, exit, code, why) },
		Load: set.LoadAgain(conf), Log: journal.set, Recent: journal.recent, Stream: journal.queue,
	})
	handOver(log, conf.DataDir)
	defer handOver(log, conf.DataDir)
	if err != nil {
		return startError(err, conf.DataDir)
	}
	id := peer.Identity() // last at start-up, how to talk to this peer
	log.Info("serving", "peer", id.Name, "peer_id", id.ID, "cluster", id.Cluster, "pid", os.Getpid(),
		"peer_address", id.Address, "api", peer.APIURL(), "status", "trivet status --socket "+conf.Socket)
	d := &daemon{term: t, exit: exit, peer: peer, dir: dir, log: log, signals: signals, reloads: make(chan struct{}, 1)}
	return d.run(ctx)
}

// exitNow ends the process without stopping anything: it must not act any more.
func exitNow(t *term.Terminal, exit func(int), code int, why error) {
	t.Complain(term.Fail(code, "the service manager starts it again; see the log above", "%w", why))
	exit(code)
}

// startError gives what keeps a peer from starting with a data directory its exit code and remedy.
func startError(err error, dir string) error {
	var problems config.Problems // of a file that the configuration names
	var listen *app.ListenError
	var start *app.StartError
	switch {
	case errors.As(err, &problems):
		return term.Fail(term.ExitUsage, "mend the lines that are named, then start it again", "%w", err)
	case errors.Is(err, app.ErrUnknown):
		return unknownEntry(err)
	case errors.As(err, &listen):
		return term.Fail(term.ExitFailed, listenHint(listen), "%w", err)
	// a failure that may pass: the file may lie on a disk that is mounted later
	case errors.As(err, &start) && start.Named:
		return term.Fail(term.ExitFailed,
			"correct the option, or the file, which the user of the service must be able to read; then start it again", "%w",
			err)
	case errors.Is(err, fs.ErrPermission):
		return directoryDenied(err, dir)
	}
	err = local.DirError(err)
	if _, known := errors.AsType[*term.Failure](err); !known && errors.As(err, &start) {
		return term.Fail(term.ExitFailed,
			"nothing was changed; mend what is named, in the data directory, then start it again", "%w", err)
	}
	return err
}

// listenHint says how an address, or the path of the socket, becomes free.
func listenHint(e *app.ListenError) string {
	set := "set " + e.Option
	switch {
	case errors.Is(e, app.ErrSocketServed):
		return "another trivet serves on it, from another data directory; " + set + " to another path"
	case errors.Is(e, app.ErrNotSocket):
		return "move the file away, or " + set + " to another path"
	case e.Option == "socket":
		return "make its directory, writable for the user of the service, or " + set + " to another path"
	case e.Holder != "":
		return "stop that program, or " + set
	case errors.Is(e, syscall.EADDRINUSE):
		return "another program uses it, 'ss -ltnup' as root names it; stop it, or " + set
	case errors.Is(e, syscall.EACCES):
		return "a port below 1024 needs a right that this user has not; " + set + " to a higher port"
	default:
		return set + " to an address of this host, or to :PORT for all of them"
	}
}

func unknownEntry(err error) error {
	return term.Fail(term.ExitUnknownEntry, "install the version of trivet that the other peers run; nothing is lost",
		"%w", err)
}
