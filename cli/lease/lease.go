// Package lease is the verbs about leases and elections, which Trivet lends to other
// programs.
package lease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
)

// Lease is 'trivet lease'.
func Lease(t *term.Terminal, local func(login bool) (string, error)) *cobra.Command {
	flags := pflag.NewFlagSet("lease", pflag.ContinueOnError)
	f := servers.New(t, local, flags)
	list := servers.Verb[[]client.Lease]{
		Use:     "list",
		Short:   "List the leases by name, free ones too",
		Example: "trivet lease list",
		Stale:   true,
		Ask: func(ctx context.Context, web *client.Client, _ []string) ([]client.Lease, error) {
			return web.Leases(ctx)
		},
		Show: func(leases []client.Lease) error {
			type row struct {
				Name, Holder, Token string
				Remaining           time.Duration
				Metadata            string `col:"wide"`
			}
			return t.Show(leases, term.Each(leases, func(l client.Lease) row {
				return row{term.Printable(l.Name), term.Printable(l.Holder), l.Token, time.Duration(l.Remaining) * time.Millisecond,
					term.Printable(l.Metadata)}
			}))
		},
	}.Command(f)
	c := term.Group("lease", "Leases with fencing tokens, for other programs",
		runCommand(t, f), acquire(t, f), renew(t, f), release(f), list, show(t, f), forget(f), policy(t), guard())
	c.Long = "Leases with fencing tokens, for other programs, through the API of any peer whose lease.enabled is set. " +
		"One holder has a lease at a time; the token rises with every grant, so that a resource that the holder changes can refuse an earlier holder."
	c.PersistentFlags().AddFlagSet(flags)
	return c
}

// shown prints a lease, or with -q its token alone, for a script to keep.
func shown(t *term.Terminal) func(client.Lease) error {
	return func(l client.Lease) error {
		if t.Quiet {
			_, err := fmt.Fprintln(t.Out, l.Token)
			return err
		}
		return t.Fields(l.Name, []string{"name", "holder", "token", "ttl_ms", "remaining_ms", "metadata"}, map[string]any{
			"name": l.Name, "holder": l.Holder, "token": l.Token, "ttl_ms": l.TTL, "remaining_ms": l.Remaining,
			"metadata": l.Metadata,
		})
	}
}

func acquire(t *term.Terminal, f *servers.Flags) *cobra.Command {
	var l client.LeaseRequest
	c := servers.Verb[client.Lease]{
		Use:   "acquire NAME",
		Short: "Acquire a lease that is free, and print its token",
		Long: "Acquire a lease that is free, and print it; -q prints the token alone. It ends by itself after --ttl: " +
			"renew it before, and stop what you do under it when you cannot. Exit code 4: another holder has it.",
		Example: "trivet lease acquire backup --holder h1 --ttl 30s",
		Ask: func(ctx context.Context, web *client.Client, args []string) (client.Lease, error) {
			return web.AcquireLease(ctx, args[0], l)
		},
		Show: shown(t),
	}.Command(f)
	holderFlag(c, &l.Holder)
	c.Flags().DurationVar(&l.TTL, "ttl", 30*time.Second, "how long it lasts unless it is renewed; at most 24h")
	c.Flags().DurationVar(&l.Wait, "wait", 0, "how long to wait while another has it; at most 30s")
	c.Flags().BoolVar(&l.Takeover, "takeover", false,
		"have a new token although this holder has the lease, and fence all that acts under the old one")
	c.Flags().StringVar(&l.Metadata, "metadata", "", "a text that is kept with it")
	c.Flags().StringVar(&l.Request, "request-id", "", "name of this acquisition: the same again is the same grant")
	return c
}

func holderFlag(c *cobra.Command, holder *string) {
	host, _ := os.Hostname() // without one the flag must be given, and the server says so
	c.Flags().StringVar(holder, "holder", host, "who holds it")
}

// held is how a holder shows what it has.
type held struct{ holder, token string }

func (h *held) flags(c *cobra.Command) *cobra.Command {
	holderFlag(c, &h.holder)
	c.Flags().StringVar(&h.token, "token", "", "under which token")
	c.PreRunE = func(*cobra.Command, []string) error {
		if h.token == "" {
			return term.Usage("--token: say under which token you hold it")
		}
		return nil
	}
	return c
}

func renew(t *term.Terminal, f *servers.Flags) *cobra.Command {
	var h held
	return h.flags(servers.Verb[client.Lease]{
		Use:     "renew NAME --token TOKEN",
		Short:   "Have a lease for its whole time again",
		Long:    "Have a lease for its whole time again. Exit code 4: it is over, or another has it; a lease that is over is never revived.",
		Example: "trivet lease renew backup --holder h1 --token 4711",
		Ask: func(ctx context.Context, web *client.Client, args []string) (client.Lease, error) {
			return web.RenewLease(ctx, args[0], h.holder, h.token)
		},
		Show: shown(t),
	}.Command(f))
}

func release(f *servers.Flags) *cobra.Command {
	var h held
	return h.flags(servers.Verb[term.None]{
		Use:     "release NAME --token TOKEN",
		Short:   "Give a lease back before its time",
		Example: "trivet lease release backup --holder h1 --token 4711",
		Ask: func(ctx context.Context, web *client.Client, args []string) (term.None, error) {
			return term.None{}, web.ReleaseLease(ctx, args[0], h.holder, h.token)
		},
	}.Command(f))
}

func forget(f *servers.Flags) *cobra.Command {
	return &cobra.Command{
		Use:     "forget NAME…",
		Short:   "Remove the records of free leases",
		Long:    "Remove the records of free leases. Tokens never come twice, so that nothing is lost with them.",
		Example: "trivet lease forget backup",
		RunE: func(c *cobra.Command, args []string) error {
			web, err := f.Client()
			if err != nil {
				return err
			}
			var failed []error
			for _, name := range args {
				if err := web.ForgetLease(c.Context(), name); err != nil {
					failed = append(failed, fmt.Errorf("%s: %w", name, err))
				}
			}
			return failures(failed)
		},
	}
}

// failures makes one error of several: each in a line, up to ten, with the exit code and
// hint of the first.
func failures(errs []error) error {
	const shown = 10
	if len(errs) == 0 {
		return nil
	}
	first := errs[0]
	if more := len(errs) - shown; more > 0 {
		errs = append(errs[:shown], fmt.Errorf("and %d more", more))
	}
	return &term.Failure{Code: term.ExitOf(first), Err: errors.Join(errs...), Hint: term.HintOf(first)}
}

func show(t *term.Terminal, f *servers.Flags) *cobra.Command {
	return servers.Verb[client.Lease]{
		Use:     "show NAME",
		Short:   "Show a lease, also one that is free",
		Example: "trivet lease show backup",
		Stale:   true,
		Ask: func(ctx context.Context, web *client.Client, args []string) (client.Lease, error) {
			return web.Lease(ctx, args[0])
		},
		Show: shown(t),
	}.Command(f)
}
