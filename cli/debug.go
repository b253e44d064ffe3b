package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
)

func (p *program) debugCommand() *cobra.Command {
	return term.Group("debug", "Look into this peer",
		p.bundleCommand(),
		term.Group("fsm", "The replicated state, as this peer has applied it", p.fsmCheck(), p.fsmDump()),
		term.Group("setting", "Replicated settings", p.settingGet(), p.settingPut(), p.settingDelete(), p.settingList()))
}

func (p *program) fsmCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Verify the invariants and print the hash, which is equal on all peers at one index",
		RunE: func(c *cobra.Command, _ []string) error {
			var out api.Check
			if err := p.peer.Call(c.Context(), "GET", "/v1/debug/check", nil, &out); err != nil {
				return err
			}
			err := p.Show(out, func() error {
				_, err := fmt.Fprintf(p.Out, "index  %d\nhash   %s\n", out.Index, out.Hash)
				return err
			})
			if err == nil && !out.OK {
				err = term.Fail(term.ExitFailed, "this is a defect of Trivet: keep 'trivet debug fsm dump' and report it", "the state breaks an invariant: %s", out.Problem)
			}
			return err
		},
	}
}

func (p *program) fsmDump() *cobra.Command {
	return &cobra.Command{
		Use:   "dump",
		Short: "Print the state as JSON, without secrets",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), term.SnapshotLimit)
			defer cancel()
			resp, err := p.peer.Within(term.SnapshotLimit).Do(ctx, "GET", "/v1/debug/dump", nil)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if _, err := io.Copy(p.Out, resp.Body); err != nil {
				return fmt.Errorf("dump: %w", err)
			}
			return nil
		},
	}
}

func settingPath(key string) string { return "/v1/settings/" + url.PathEscape(key) }

func (p *program) settingGet() *cobra.Command {
	var stale bool
	c := &cobra.Command{Use: "get KEY", Short: "Print a setting's value"}
	term.StaleFlag(c, &stale)
	c.RunE = func(c *cobra.Command, args []string) error {
		var s api.Setting
		if err := p.peer.Call(c.Context(), "GET", term.Stale(settingPath(args[0]), stale), nil, &s); err != nil {
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
		RunE: func(c *cobra.Command, args []string) error {
			var s api.Setting
			if err := p.peer.Call(c.Context(), "PUT", settingPath(args[0]), api.Setting{Value: args[1]}, &s); err != nil {
				return err
			}
			return p.printSetting(s, s.Token.String())
		},
	}
}

func (p *program) printSetting(s api.Setting, short string) error {
	return p.Show(s, func() error {
		_, err := fmt.Fprintln(p.Out, short)
		return err
	})
}

func (p *program) settingDelete() *cobra.Command {
	return &cobra.Command{
		Use:   "delete KEY",
		Short: "Delete a setting",
		RunE: func(c *cobra.Command, args []string) error {
			return p.peer.Call(c.Context(), "DELETE", settingPath(args[0]), nil, nil)
		},
	}
}

func (p *program) settingList() *cobra.Command {
	var stale bool
	c := &cobra.Command{Use: "list", Short: "List the settings"}
	term.StaleFlag(c, &stale)
	c.RunE = func(c *cobra.Command, _ []string) error {
		var rows []api.Setting
		if err := p.peer.Call(c.Context(), "GET", term.Stale("/v1/settings", stale), nil, &rows); err != nil {
			return err
		}
		type row struct {
			Key, Value string
		}
		return p.Show(rows, term.Each(rows, func(s api.Setting) row {
			return row{s.Key, s.Value}
		}))
	}
	return c
}
