package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/inspector/hardware"
)

const maxExpectationFile = 1 << 20 // bytes

// expecting is what a command does with expectations: one of all, but for dry.
type expecting struct {
	list         bool
	show, remove string                 // names
	file         []hardware.Expectation // to be written
	dry          bool
}

func nodeExpectCommand(t *term.Terminal, f *servers.Flags) *cobra.Command {
	var e expecting
	c := &cobra.Command{
		Use:   "expect [FILE]",
		Short: "Say what machines were ordered with",
		Long: "Write the expectations of a YAML or JSON file, each in the place of one of its name; - is standard input. Each says for a group of\n" +
			"machines, by UUIDs, names, patterns of names or what they tell of themselves, which parts they were ordered with. Every inspection is\n" +
			"judged, and the machines that are known are judged again when an expectation changes. A machine that differs finishes all the same:\n" +
			"'trivet introspection list --unexpected' names it. What --show prints with -o yaml is what a file has.",
		Example: "trivet node expect expectations.yaml\ntrivet node expect --list\ntrivet node expect --delete compute",
		Args:    cobra.MaximumNArgs(1),
	}
	c.Flags().BoolVar(&e.list, "list", false, "list the expectations")
	c.Flags().StringVar(&e.show, "show", "", "show the expectation of this name")
	c.Flags().StringVar(&e.remove, "delete", "", "delete the expectation of this name")
	term.DryRunFlag(c, &e.dry)
	c.RunE = func(c *cobra.Command, args []string) error {
		asked := len(args)
		for _, set := range [...]bool{e.list, e.show != "", e.remove != ""} {
			if set {
				asked++
			}
		}
		switch {
		case asked != 1:
			return term.Usage("name a FILE, or --list, --show NAME or --delete NAME")
		case e.dry && (e.list || e.show != ""):
			return term.Usage("--dry-run goes with a FILE or --delete: --list and --show change nothing")
		}
		if len(args) == 1 {
			text, err := t.ReadInput(args[0], maxExpectationFile)
			if err == nil {
				e.file, err = hardware.ReadExpectations(text)
			}
			if err != nil {
				return term.Usage("%s: %w", args[0], err)
			}
		}
		return expect(c.Context(), t, f, e)
	}
	return c
}

// expect does what is asked. It writes the expectations of a file in turn, up to the first that is refused.
func expect(ctx context.Context, t *term.Terminal, f *servers.Flags, asked expecting) error {
	if asked.dry {
		changes := []client.Change{{DeleteExpectation: asked.remove}}
		if asked.remove == "" {
			changes = term.Each(asked.file,
				func(e hardware.Expectation) client.Change { return client.Change{PutExpectation: e} })
		}
		errs, err := f.DryRun(ctx, "expectations", changes)
		for i, refused := range errs {
			if refused != nil && asked.remove == "" {
				refused = fmt.Errorf("expectation %s: %w", asked.file[i].Name, refused)
			}
			err = errors.Join(err, refused)
		}
		return err
	}
	web, err := f.Client()
	switch {
	case err != nil:
		return err
	case asked.list:
		return listExpectations(ctx, t, web)
	case asked.show != "":
		return showExpectation(ctx, t, web, asked.show)
	case asked.remove != "":
		return web.Hardware().DeleteExpectation(ctx, asked.remove)
	}
	for i, e := range asked.file {
		if err := web.Hardware().PutExpectation(ctx, e.Name, e); err != nil {
			return errors.Join(fmt.Errorf("expectation %s: %w", e.Name, err),
				fmt.Errorf("%d of %d expectations of the file were written", i, len(asked.file)))
		}
	}
	t.Say("%d expectations were written; the leader judges the machines that are known", len(asked.file))
	return nil
}

func listExpectations(ctx context.Context, t *term.Terminal, web *client.Client) error {
	all, err := web.Hardware().Expectations(ctx)
	if err != nil {
		return err
	}
	type row struct {
		Name, Nodes string
		Parts       int
	}
	return t.Show(all, term.Each(all, func(e client.Expectation) row {
		nodes := strings.Join(e.Nodes, ",")
		if len(e.Where) > 0 {
			nodes = strings.TrimPrefix(fmt.Sprintf("%s where %s", nodes, rowsOf(e.Where)), " ")
		}
		return row{term.Printable(e.Name), t.Clip(nodes), len(e.Parts)}
	}))
}

func rowsOf(rows []map[string]string) string {
	return strings.Join(term.Each(rows, func(r map[string]string) string {
		w := hardware.Wanted{Kind: r["kind"], Number: r["number"], Facts: r}
		delete(w.Facts, "kind")
		delete(w.Facts, "number")
		return w.String()
	}), "; ")
}

func showExpectation(ctx context.Context, t *term.Terminal, web *client.Client, name string) error {
	e, err := web.Hardware().Expectation(ctx, name)
	if err != nil {
		return err
	}
	return t.Show([]client.Expectation{e}, func() error {
		return t.Fields(e.Name, []string{"name", "nodes", "where", "parts"}, map[string]any{
			"name": e.Name, "nodes": strings.Join(e.Nodes, ", "), "where": rowsOf(e.Where), "parts": rowsOf(e.Parts),
		})
	})
}

// listUnexpected lists the machines that are not as ordered.
func listUnexpected(ctx context.Context, t *term.Terminal, web *client.Client) error {
	all, err := web.Hardware().Unexpected(ctx)
	if err != nil {
		return err
	}
	names := nodeNames(ctx, t, web, term.Each(all, func(v client.Verdict) client.Introspection {
		return client.Introspection{UUID: v.UUID}
	}))
	type row struct {
		UUID, Name, Differences string
	}
	return t.Show(all, term.Each(all, func(v client.Verdict) row {
		return row{v.UUID, term.Printable(names[v.UUID]), t.Clip(term.Printable(strings.Join(v.Differences, "; ")))}
	}))
}
