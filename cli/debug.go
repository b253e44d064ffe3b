package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
)

func (p *program) debugCommand() *cobra.Command {
	return group("debug", "Look into this peer",
		p.bundleCommand(),
		group("fsm", "The replicated state, as this peer has applied it", p.fsmCheck(), p.fsmDump()),
		group("setting", "Replicated settings", p.settingGet(), p.settingPut(), p.settingDelete(), p.settingList()))
}

func (p *program) fsmCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Verify the invariants and print the hash, which is equal on all peers at one index",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var out api.Check
			if err := p.peer().call(c.Context(), "GET", "/v1/debug/check", nil, &out); err != nil {
				return err
			}
			if p.format == "json" || p.format == "yaml" {
				if err := document(p.out, p.format, out); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(p.out, "index  %d\nhash   %s\n", out.Index, out.Hash)
			}
			if !out.OK {
				return fail(ExitFailed, "this is a defect of Trivet: keep 'trivet debug fsm dump' and report it", "the state breaks an invariant: %s", out.Problem)
			}
			return nil
		},
	}
}

func (p *program) fsmDump() *cobra.Command {
	return &cobra.Command{
		Use:   "dump",
		Short: "Print the state as JSON, without secrets",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), snapshotLimit)
			defer cancel()
			resp, err := p.peer().within(snapshotLimit).do(ctx, "GET", "/v1/debug/dump", nil)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if _, err := io.Copy(p.out, resp.Body); err != nil {
				return fmt.Errorf("dump: %w", err)
			}
			return nil
		},
	}
}

func settingPath(key string) string { return "/v1/settings/" + url.PathEscape(key) }

func (p *program) settingGet() *cobra.Command {
	var stale bool
	c := &cobra.Command{Use: "get KEY", Short: "Print a setting's value", Args: cobra.ExactArgs(1)}
	c.Flags().BoolVar(&stale, "stale", false, "answer from this peer's own state, also without a quorum")
	c.RunE = func(c *cobra.Command, args []string) error {
		var s api.Setting
		if err := p.peer().call(c.Context(), "GET", staleable(settingPath(args[0]), stale), nil, &s); err != nil {
			return err
		}
		return p.printSetting(s, s.Value)
	}
	return c
}

func (p *program) settingPut() *cobra.Command {
	return &cobra.Command{
		Use:   "put KEY VALUE",
		Short: "Store a setting and print the token of the write",
		Args:  cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			var s api.Setting
			if err := p.peer().call(c.Context(), "PUT", settingPath(args[0]), api.Setting{Value: args[1]}, &s); err != nil {
				return err
			}
			return p.printSetting(s, s.Token.String())
		},
	}
}

func (p *program) printSetting(s api.Setting, short string) error {
	if p.format == "json" || p.format == "yaml" {
		return document(p.out, p.format, s)
	}
	fmt.Fprintln(p.out, short)
	return nil
}

func (p *program) settingDelete() *cobra.Command {
	return &cobra.Command{
		Use:   "delete KEY",
		Short: "Delete a setting",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return p.peer().call(c.Context(), "DELETE", settingPath(args[0]), nil, nil)
		},
	}
}

func (p *program) settingList() *cobra.Command {
	var stale bool
	c := &cobra.Command{Use: "list", Short: "List the settings", Args: cobra.NoArgs}
	c.Flags().BoolVar(&stale, "stale", false, "answer from this peer's own state, also without a quorum")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var rows []api.Setting
		if err := p.peer().call(c.Context(), "GET", staleable("/v1/settings", stale), nil, &rows); err != nil {
			return err
		}
		return table(p.out, p.format, rows, func(s api.Setting) string { return s.Key },
			column[api.Setting]{"KEY", false, func(s api.Setting) string { return s.Key }},
			column[api.Setting]{"VALUE", false, func(s api.Setting) string { return s.Value }},
		)
	}
	return c
}
