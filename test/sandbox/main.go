// Command sandbox is a whole site in one process, to try things out: three peers with a
// real log over mutual TLS on loopback and on disk, in front of a simulated Ironic and
// simulated machines, each of which it introspects once. It needs no root, and touches
// nothing else on this host.
//
//	go run ./test/sandbox -nodes 20
//	go run ./test/sandbox -nodes 50 -kill-leader-every 10s -for 1m
//
// Without -for the site stays up until SIGINT; its addresses are printed. With -for,
// machines arrive over that time, and the command ends when every introspection has.
// -kill-leader-every kills whichever peer leads, without warning, and starts it again 3 s
// later; what such a peer was processing ends in error, and is started again, as an
// operator would. Introspections time out after 15 s.
//
// The last line on standard output is a site.Summary. The exit code is 1 if a node is
// stuck or ended as it should not (silent ones end in error, the others finish), or if
// the PXE services of two hosts were open at once.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/api/web"
	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/test/sandbox/site"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns the exit code: 2 for wrong arguments.
func run(ctx context.Context, args []string, out, errw io.Writer) int {
	var o site.Options
	flags := flag.NewFlagSet("sandbox", flag.ContinueOnError)
	flags.SetOutput(errw)
	flags.IntVar(&o.Nodes, "nodes", 50, "machines")
	flags.IntVar(&o.Silent, "silent", 1, "machines that never call back")
	flags.DurationVar(&o.KillEvery, "kill-leader-every", 0, "kill the leader this often; 0s: never")
	flags.DurationVar(&o.For, "for", 0, "end after this much time, when every introspection has ended; 0s: on SIGINT")
	flags.StringVar(&o.Dir, "dir", "", "keep what the peers write here, an empty directory; default: a temporary one")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := check(o); err != nil {
		fmt.Fprintln(errw, "error:", err)
		return 2
	}
	if err := runSite(ctx, o, out, errw); err != nil {
		fmt.Fprintln(errw, "error:", err)
		return 1
	}
	return 0
}

func check(o site.Options) error {
	const least = time.Second
	switch {
	case o.Nodes < 1 || o.Nodes > site.MaxNodes:
		return fmt.Errorf("-nodes %d: it is 1 to %d", o.Nodes, site.MaxNodes)
	case o.Silent < 0 || o.Silent > o.Nodes:
		return fmt.Errorf("-silent %d: it is 0 to the number of nodes, %d", o.Silent, o.Nodes)
	case o.KillEvery != 0 && o.KillEvery < least:
		return fmt.Errorf("-kill-leader-every %v: it is at least %v, or 0s", o.KillEvery, least)
	case o.For != 0 && o.For < least:
		return fmt.Errorf("-for %v: it is at least %v, or 0s", o.For, least)
	}
	return nil
}

// runSite runs the site until it is done or ctx ends.
func runSite(ctx context.Context, o site.Options, out, errw io.Writer) (err error) {
	defer app.BoundGarbage()()
	t := &term.Terminal{Err: errw, Env: os.Environ()}
	o.Tell = func(format string, args ...any) {
		if term.Columns(errw) > 0 {
			fmt.Fprint(errw, "\r\x1b[K") // over the bar
		}
		fmt.Fprintf(errw, format+"\n", args...)
	}
	s, err := site.New(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		if closing := s.Close(); closing != nil {
			err = errors.Join(err, fmt.Errorf("end the site: %w", closing))
		}
	}()
	announce(s, o)
	hide := t.ShowProgress(func() (done, total int, detail string) {
		at := s.Progress()
		return at.Ended(), at.Nodes, at.Detail()
	})
	sum, err := s.Run(ctx)
	hide()
	return errors.Join(err, json.NewEncoder(out).Encode(sum))
}

func announce(s *site.Sandbox, o site.Options) {
	peers := s.Peers()
	o.Tell("page %s%s", peers[0].URL, web.Path)
	o.Tell("%d machines, %d of them silent; peers and their logs are in %s", o.Nodes, o.Silent, s.Dir())
	for _, p := range peers {
		o.Tell("%s  %s  trivet status --socket %s", p.Name, p.URL, p.Socket)
	}
	o.Tell("Ironic %s", s.Ironic())
	if o.For == 0 {
		o.Tell("try: curl %s/v1/introspection   (Ctrl-C ends it)", peers[0].URL)
	}
}
