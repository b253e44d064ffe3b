// Package debug is the verbs that look for what is wrong, for an operator or for the
// support that helps one.
package debug

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
)

// profileAnswer is what a profile may take beyond the time that it is taken for.
const profileAnswer = 10 * time.Second

// Debug is 'trivet debug'.
func Debug(t *term.Terminal, peer term.Peer, set *options.Set) *cobra.Command {
	check := term.Verb[admin.Check]{
		Use:     "check",
		Short:   "Verify the invariants and print the hash, which is equal on all peers at one index",
		Example: "trivet debug fsm check",
		Method:  "GET", Path: "/v1/debug/check",
		Show: func(out admin.Check, _ []string) error {
			err := t.Show(out, func() error {
				_, err := fmt.Fprintf(t.Out, "index  %d\nhash   %s\n", out.Index, out.Hash)
				return err
			})
			if err == nil && !out.OK {
				err = term.Fail(term.ExitFailed, "this is a defect of Trivet: keep 'trivet debug fsm dump' and report it",
					"the state breaks an invariant: %s", out.Problem)
			}
			return err
		},
	}.Command(peer)
	dump := &cobra.Command{
		Use:     "dump",
		Short:   "Print the state as JSON, without secrets",
		Example: "trivet debug fsm dump > state.json",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), term.SnapshotLimit)
			defer cancel()
			return printAnswer(ctx, t, peer.Within(term.SnapshotLimit), "/v1/debug/dump", "dump")
		},
	}
	profile := &cobra.Command{
		Use:   "profile KIND",
		Short: "Write a profile of this host's peer, for 'go tool pprof'",
		Long: "Write a profile of this host's peer to standard output, for 'go tool pprof':\n" +
			"where processor time goes from now on (cpu), where memory was taken that is in\n" +
			"use (heap) or ever was (allocs), or where its goroutines stand (goroutine).",
		Example:   "trivet debug profile cpu --seconds 30 > cpu.pprof",
		Args:      cobra.ExactArgs(1),
		ValidArgs: admin.Profiles(),
	}
	seconds := profile.Flags().Int("seconds", int(admin.ProfileTime.Seconds()),
		"how long the processor is looked at, 1 to 60")
	profile.RunE = func(c *cobra.Command, args []string) error {
		query := url.Values{"kind": args, "seconds": {fmt.Sprint(*seconds)}}
		asked := peer.Within(time.Duration(*seconds)*time.Second + profileAnswer)
		return printAnswer(c.Context(), t, asked, "/v1/debug/profile?"+query.Encode(), "read the "+args[0]+" profile")
	}
	return term.Group("debug", "Look into this peer", bundleCommand(t, peer, set), profile,
		term.Group("fsm", "The replicated state, as this peer has applied it", check, dump), settingCommands(t, peer))
}

// printAnswer copies an answer of the peer to standard output; what names it in an error.
func printAnswer(ctx context.Context, t *term.Terminal, peer term.Peer, path, what string) error {
	resp, err := peer.Do(ctx, "GET", path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(t.Out, resp.Body); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func settingCommands(t *term.Terminal, peer term.Peer) *cobra.Command {
	get := term.Verb[admin.Setting]{
		Use: "get KEY", Short: "Print a setting's value", Example: "trivet debug setting get user.greeting",
		Method: "GET", Path: "/v1/settings/{KEY}", Stale: true,
		Show: func(s admin.Setting, _ []string) error { return printSetting(t, s, s.Value) },
	}.Command(peer)
	put := term.Verb[admin.Setting]{
		Use: "put KEY VALUE", Short: "Store a setting and print the token of the write",
		Long: "Store a setting and print the token of the write. KEY begins with user. and has at most 64 of a-z, 0-9, dot, dash, underscore.\n" +
			"Trivet does nothing with settings: they are small texts of operators that each peer has.",
		Example: "trivet debug setting put user.greeting hello",
		Method:  "PUT", Path: "/v1/settings/{KEY}", Dry: t, Of: "settings",
		Input: func(args []string) any { return admin.Setting{Value: args[1]} },
		Show:  func(s admin.Setting, _ []string) error { return printSetting(t, s, s.Token.String()) },
	}.Command(peer)
	remove := term.Verb[term.None]{
		Use: "delete KEY", Short: "Delete a setting", Example: "trivet debug setting delete user.greeting",
		Method: "DELETE", Path: "/v1/settings/{KEY}", Dry: t, Of: "settings",
	}.Command(peer)
	list := term.Verb[[]admin.Setting]{
		Use: "list", Short: "List the settings", Example: "trivet debug setting list",
		Method: "GET", Path: "/v1/settings", Stale: true,
		Show: func(all []admin.Setting, _ []string) error {
			type row struct{ Key, Value string }
			return t.Show(all, term.Each(all, func(s admin.Setting) row { return row{s.Key, s.Value} }))
		},
	}.Command(peer)
	return term.Group("setting", "Replicated settings", get, put, remove, list)
}

func printSetting(t *term.Terminal, s admin.Setting, short string) error {
	return t.Show(s, func() error {
		_, err := fmt.Fprintln(t.Out, short)
		return err
	})
}
