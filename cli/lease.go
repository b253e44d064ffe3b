package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/client"
)

func (p *program) leaseCommand() *cobra.Command {
	flags := pflag.NewFlagSet("lease", pflag.ContinueOnError)
	f := p.webFlags(flags)
	c := group("lease", "Leases with fencing tokens, for other programs",
		p.leaseRun(f), p.leaseAcquire(f), p.leaseRenew(f), p.leaseRelease(f), p.leaseList(f), p.leaseShow(f), p.leaseForget(f), p.leasePolicy(), p.leaseGuard())
	c.Long = "Leases with fencing tokens, for other programs, through the API of any peer whose lease.enabled is set. One holder has a lease at a time;\n" +
		"the token rises with every grant, so that whatever the holder changes can refuse one that was held before."
	c.PersistentFlags().AddFlagSet(flags)
	return c
}

// shownLease prints a lease, or with -q its token alone, for a script to keep.
func (p *program) shownLease(l client.Lease) error {
	if p.quiet {
		_, err := fmt.Fprintln(p.out, l.Token)
		return err
	}
	return p.printFields(l.Name, []string{"name", "holder", "token", "ttl_ms", "remaining_ms", "metadata"}, map[string]any{
		"name": l.Name, "holder": l.Holder, "token": l.Token, "ttl_ms": l.TTL, "remaining_ms": l.Remaining, "metadata": l.Metadata,
	})
}

func (p *program) leaseAcquire(f *webFlags) *cobra.Command {
	var l client.LeaseRequest
	c := &cobra.Command{
		Use:   "acquire NAME",
		Short: "Acquire a lease that is free, and print its token",
		Long: "Acquire a lease that is free, and print it; -q prints the token alone. It ends by itself after --ttl: renew it before, and stop what you do under it\n" +
			"when you cannot. Exit code 4: somebody else has it.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			web, err := p.web(f)
			if err != nil {
				return err
			}
			got, err := web.AcquireLease(c.Context(), args[0], l)
			if err != nil {
				return err
			}
			return p.shownLease(got)
		},
	}
	host, _ := os.Hostname() // without one the flag must be given, and the server says so
	c.Flags().StringVar(&l.Holder, "holder", host, "who holds it")
	c.Flags().DurationVar(&l.TTL, "ttl", 30*time.Second, "how long it lasts unless it is renewed; at most 24h")
	c.Flags().DurationVar(&l.Wait, "wait", 0, "how long to wait while another has it; at most 30s")
	c.Flags().BoolVar(&l.Takeover, "takeover", false, "have a new token although this holder has the lease, and fence whatever acts under the old one")
	c.Flags().StringVar(&l.Metadata, "metadata", "", "a text that is kept with it")
	c.Flags().StringVar(&l.Request, "request-id", "", "name of this acquisition: the same again is the same grant")
	return c
}

// leaseFlags are how a holder shows what it has.
func leaseFlags(c *cobra.Command) (holder, token *string) {
	host, _ := os.Hostname() // as above
	holder = c.Flags().String("holder", host, "who holds it")
	token = c.Flags().String("token", "", "under which token")
	c.PreRunE = func(*cobra.Command, []string) error {
		if *token == "" {
			return usage("--token: say under which token you hold it")
		}
		return nil
	}
	return holder, token
}

func (p *program) leaseRenew(f *webFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "renew NAME --token TOKEN",
		Short: "Have a lease for its whole time again",
		Long:  "Have a lease for its whole time again. Exit code 4: it is over, or another has it; a lease that is over is never revived.",
		Args:  cobra.ExactArgs(1),
	}
	holder, token := leaseFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		web, err := p.web(f)
		if err != nil {
			return err
		}
		l, err := web.RenewLease(c.Context(), args[0], *holder, *token)
		if err != nil {
			return err
		}
		return p.shownLease(l)
	}
	return c
}

func (p *program) leaseRelease(f *webFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "release NAME --token TOKEN",
		Short: "Give a lease back before its time",
		Args:  cobra.ExactArgs(1),
	}
	holder, token := leaseFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		web, err := p.web(f)
		if err != nil {
			return err
		}
		return web.ReleaseLease(c.Context(), args[0], *holder, *token)
	}
	return c
}

func (p *program) leaseForget(f *webFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "forget NAME…",
		Short: "Remove what is kept of free leases",
		Long:  "Remove what is kept of free leases. Tokens never come twice, so that nothing is lost with them.",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			web, err := p.web(f)
			if err != nil {
				return err
			}
			errs := make([]error, len(args))
			for i, name := range args {
				if errs[i] = web.ForgetLease(c.Context(), name); errs[i] != nil {
					errs[i] = fmt.Errorf("%s: %w", name, errs[i])
				}
			}
			return failures(errs)
		},
	}
}

func (p *program) leaseShow(f *webFlags) *cobra.Command {
	var stale bool
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a lease, also one that is free",
		Args:  cobra.ExactArgs(1),
	}
	staleFlag(c, &stale)
	c.RunE = func(c *cobra.Command, args []string) error {
		web, err := p.webFor(f, stale)
		if err != nil {
			return err
		}
		l, err := web.Lease(c.Context(), args[0])
		if err != nil {
			return err
		}
		return p.shownLease(l)
	}
	return c
}

func (p *program) leaseList(f *webFlags) *cobra.Command {
	var stale bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the leases by name, free ones too",
		Args:  cobra.NoArgs,
	}
	staleFlag(c, &stale)
	c.RunE = func(c *cobra.Command, _ []string) error {
		web, err := p.webFor(f, stale)
		if err != nil {
			return err
		}
		leases, err := web.Leases(c.Context())
		if err != nil {
			return err
		}
		return table(p.out, p.format, leases, func(l client.Lease) string { return l.Name },
			column[client.Lease]{"NAME", false, func(l client.Lease) string { return printable(l.Name) }},
			column[client.Lease]{"HOLDER", false, func(l client.Lease) string { return dash(printable(l.Holder)) }},
			column[client.Lease]{"TOKEN", false, func(l client.Lease) string { return l.Token }},
			column[client.Lease]{"REMAINING", false, func(l client.Lease) string { return (time.Duration(l.Remaining) * time.Millisecond).String() }},
			column[client.Lease]{"METADATA", true, func(l client.Lease) string { return dash(printable(l.Metadata)) }},
		)
	}
	return c
}
