package lease

import (
	"errors"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client/lease"
	"github.com/trivet-ha/trivet/lease/runner"
)

// runFlags are what a person says of a run.
type runFlags struct {
	lease lease.Options
	wait  time.Duration
}

// forever is the --wait without an end.
const forever = "forever"

func runCommand(t *term.Terminal, f *servers.Flags) *cobra.Command {
	var r runFlags
	wait := "0s"
	c := &cobra.Command{
		Use:   "run NAME -- COMMAND ARGUMENT…",
		Short: "Run a program while this host holds a lease, and end it when it does not",
		Long: "Acquire a lease, run a program while it is renewed, and release it when the program has ended with all it started.\n\n" +
			"A guard, a second small process, ends the program when the lease was not renewed in time: TERM a margin before the end that the\n" +
			"cluster knows, KILL half a margin later, to its process group and to processes that left that. It does so too when this process is stopped or killed,\n" +
			"and after the machine has slept. A lease that is lost to another, by a takeover, is KILL at once. Run the program in the foreground: what it\n" +
			"leaves behind is killed when it ends.\n\n" +
			"In the program's environment are TRIVET_FENCING_TOKEN, to be sent with each change it makes, and TRIVET_LEASE_DEADLINE: until when the lease was\n" +
			"held at the start, in seconds since boot as /proc/uptime counts them.\n\n" +
			"INT, TERM, HUP, QUIT, USR1, USR2, ALRM, WINCH and CONT are forwarded to the program's group. The exit code is the program's own, 128+n when\n" +
			"signal n ended it, 127 or 126 when it cannot be started; 75 when it was ended because of the lease; 4 when another holds that, after --wait;\n" +
			"5 when there is no quorum.",
		Example: "  trivet lease run backup --ttl 30s -- /usr/local/bin/backup --all\n  trivet lease run mirror --wait forever -- rsync -a --delete a/ b/",
		Args: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 1 || len(args) < 2 {
				return term.Usage("write the lease's name, then --, then the program and its arguments")
			}
			return nil
		},
	}
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		r.wait = runner.Forever
		if wait != forever {
			if r.wait, err = time.ParseDuration(wait); err != nil || r.wait < 0 {
				return term.Usage("--wait %s: it is a duration, as 90s, or %s", wait, forever)
			}
		}
		r.lease.Name = args[0]
		return runUnderLease(c, t, f, r, args[1:])
	}
	holderFlag(c, &r.lease.Holder)
	c.Flags().DurationVar(&r.lease.TTL, "ttl", 15*time.Second,
		"how long it lasts unless it is renewed, every third of that; at most 24h")
	c.Flags().DurationVar(&r.lease.Margin, "margin", 0,
		"how long before its end the program is asked to end; a tenth to a half of --ttl (default a third)")
	c.Flags().StringVar(&wait, "wait", wait, "how long to wait while another has it, or 'forever'")
	c.Flags().BoolVar(&r.lease.Takeover, "takeover", false,
		"do not wait for the end of a lease that this holder has: have a new token, which fences all that acts under the old one")
	c.Flags().StringVar(&r.lease.Metadata, "metadata", "", "a text that is kept with it")
	return c
}

func runUnderLease(c *cobra.Command, t *term.Terminal, f *servers.Flags, r runFlags, command []string) error {
	term.OutliveReaders() // its exit code says how the program ended
	var err error
	if r.lease.API, err = f.Options(); err != nil {
		return err
	}
	if _, err := lease.New(r.lease); err != nil {
		return term.Usage("%w", err)
	}
	waiting := ""
	r.lease.OnRefused = func(refusal error) {
		if holder, _, _ := strings.Cut(refusal.Error(), " for another "); holder != waiting {
			waiting = holder
			t.Say("%s: waiting for it", term.Printable(holder))
		}
	}
	signals := make(chan os.Signal, 16) // more at once are not told apart
	signal.Notify(signals, runner.Forwarded()...)
	defer signal.Stop(signals)
	code, err := runner.Run(c.Context(), runner.Options{
		Lease: r.lease, Wait: r.wait, Command: command, Guard: []string{"trivet", "lease", guardName},
		Stdin: t.In, Stdout: term.OffScreen(t.Out), Stderr: term.OffScreen(t.Err), Env: t.Env, Signals: signals, Warn: t.Warn,
	})
	var never *runner.NotStartedError
	switch {
	case errors.As(err, &never):
		return term.Fail(never.Code, "", "%w", err)
	case errors.Is(err, lease.ErrLost), errors.Is(err, lease.ErrDeadline):
		return term.Fail(term.ExitLostLeadership, "the program was ended; start it again to wait for the lease, with --wait",
			"%w", err)
	case err != nil:
		return err
	case code != 0:
		return &term.ProgramEnded{Code: code}
	}
	return nil
}

// guardName is the word by which a guard is started.
const guardName = "guard"

// guard is the process that 'lease run' starts, with open files that only its parent
// can give it.
func guard() *cobra.Command {
	return &cobra.Command{
		Use:                guardName + " GRACE COMMAND ARGUMENT…",
		Short:              "Watch over a program: started by 'trivet lease run'",
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			grace, err := time.ParseDuration(args[0])
			if err != nil {
				return term.Usage("it is started by 'trivet lease run' alone: %w", err)
			}
			if code := runner.Guard(grace, args[1:]); code != 0 {
				return &term.ProgramEnded{Code: code}
			}
			return nil
		},
	}
}
