package node

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/internal/bounds"
)

const (
	maxNodes    = 100_000 // of one command
	maxNodeList = 8 << 20 // bytes of standard input
)

// Introspection is 'trivet introspection'.
func Introspection(t *term.Terminal, local func(login bool) (string, error)) *cobra.Command {
	flags := pflag.NewFlagSet("introspection", pflag.ContinueOnError)
	f := servers.New(t, local, flags)
	var file string
	reprocess := &cobra.Command{
		Use:   "reprocess NODE…",
		Short: "Have the hooks and rules of today work on data that was sent before",
		Long: "Have the hooks and rules of today work on the data of the nodes' last introspections; - reads nodes from standard input.\n" +
			"No machine is switched on or off. With --data-file the data of one node is replaced by a document, as the ramdisk would send it.\n" +
			"The command ends when the work was accepted; 'trivet introspection list' shows how it goes.",
		Example: "trivet introspection reprocess node-1\ntrivet introspection reprocess node-1 --data-file changed.json",
		RunE: func(c *cobra.Command, args []string) error {
			document, err := readDocument(t, file, args)
			if err != nil {
				return err
			}
			reapply := func(ctx context.Context, web *client.Client, node string) error {
				return web.Reapply(ctx, node, document)
			}
			return actOnNodes(c.Context(), t, f, args, reapply, waiting{})
		},
	}
	reprocess.Flags().StringVar(&file, "data-file", "",
		"JSON document to work on in the place of the stored data; - is standard input")
	c := term.Group("introspection", "Start, watch and abort introspections of nodes, and read what they found",
		introspectionStart(t, f), introspectionShow(t, f), introspectionList(t, f),
		&cobra.Command{
			Use:     "abort NODE…",
			Short:   "Abort introspections; they end in error",
			Long:    "Abort the introspections of nodes; - reads nodes from standard input. Where none is under way nothing changes.",
			Example: "trivet introspection abort node-1",
			RunE: func(c *cobra.Command, args []string) error {
				abort := func(ctx context.Context, web *client.Client, node string) error { return web.Abort(ctx, node) }
				return actOnNodes(c.Context(), t, f, args, abort, waiting{})
			},
		},
		reprocess, term.Group("data", "Read the data of an introspection", introspectionDataSave(t, f)),
		ofOriginal("introspection interface"), ofOriginal("introspection status"))
	c.Long = "Start, watch and abort introspections of nodes, and read what they found, through the API of any peer.\n" +
		"A node is named by its UUID or its name in Ironic. Where several nodes fail, the exit code is that of the first of them in the order given.\n" +
		"Over http the password of --credentials can be read on the way: use https where others share the network."
	c.PersistentFlags().AddFlagSet(flags)
	return c
}

// ofOriginal answers for a command that v0.2.0 had and the original's client has. It goes
// with the release after the next.
func ofOriginal(name string) *cobra.Command {
	return term.Gone(name, "'baremetal introspection "+strings.TrimPrefix(name, "introspection ")+
		"' of python-ironic-inspector-client does the same, of any peer")
}

// nodes returns the nodes that the words name, each once; "-" stands for those
// that standard input names, separated by white space.
func nodes(t *term.Terminal, words []string) ([]string, error) {
	var refs []string
	for _, word := range words {
		if word != "-" {
			refs = append(refs, word)
			continue
		}
		text, err := io.ReadAll(io.LimitReader(t.In, maxNodeList+1))
		switch {
		case err != nil:
			return nil, fmt.Errorf("read the nodes: %w", err)
		case len(text) > maxNodeList:
			return nil, term.Usage("standard input: at most %d MiB of nodes", maxNodeList>>20)
		}
		refs = append(refs, strings.Fields(string(bounds.WithoutMark(text)))...)
	}
	seen := make(map[string]bool)
	refs = slices.DeleteFunc(refs, func(ref string) bool {
		again := seen[ref]
		seen[ref] = true
		return again
	})
	switch {
	case len(refs) == 0:
		return nil, term.Usage("no node is named")
	case len(refs) > maxNodes:
		return nil, term.Usage("%d nodes: at most %d at once", len(refs), maxNodes)
	}
	for _, ref := range refs {
		if ref == "" || ref == "." || ref == ".." || strings.ContainsAny(ref, "/\\") || ref != term.Printable(ref) {
			return nil, term.Usage("%q is no UUID and no name of a node", ref)
		}
	}
	return refs, nil
}

// oneNode returns the node that a word names, or standard input for "-".
func oneNode(t *term.Terminal, word string) (string, error) {
	refs, err := nodes(t, []string{word})
	if err != nil {
		return "", err
	}
	if len(refs) > 1 {
		return "", term.Usage("%d nodes: this is for one at a time", len(refs))
	}
	return refs[0], nil
}

func introspectionShow(t *term.Terminal, f *servers.Flags) *cobra.Command {
	var stale bool
	c := &cobra.Command{
		Use:     "show NODE",
		Short:   "Show all that is known of a node's introspection",
		Long:    "Show all that is known of a node's introspection: with its state the whole error, and which peer keeps the logs that the ramdisk sent, and where.",
		Example: "trivet introspection show node-1",
	}
	servers.StaleFlag(c, &stale)
	c.RunE = func(c *cobra.Command, args []string) error {
		ref, err := oneNode(t, args[0])
		if err != nil {
			return err
		}
		web, err := f.Reader(stale)
		if err != nil {
			return err
		}
		i, err := web.Status(c.Context(), ref)
		if err != nil {
			return fmt.Errorf("%s: %w", ref, err)
		}
		return t.Show(i, func() error {
			return t.Fields(i.UUID, []string{"uuid", "name", "state", "started_at", "finished_at", "error", "ramdisk_logs"},
				map[string]any{
					"uuid": i.UUID, "name": nodeNames(c.Context(), t, web, []client.Introspection{i})[i.UUID], "state": i.State,
					"started_at": shownTime(&i.StartedAt), "finished_at": shownTime(i.FinishedAt), "error": i.Why(),
					"ramdisk_logs": i.RamdiskLogs,
				})
		})
	}
	return c
}

func introspectionList(t *term.Terminal, f *servers.Flags) *cobra.Command {
	var o client.ListOptions
	var stale, unexpected bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List introspections, those started last first",
		Long: "List introspections, those started last first. The names of nodes are Ironic's: a table shows them if Ironic answers within seconds;\n" +
			"-o json and yaml print what the API of ironic-inspector has, which has no names.",
		Example: "trivet introspection list\ntrivet introspection list --state error,waiting -o wide\n" +
			"trivet introspection list --unexpected",
	}
	c.Flags().StringSliceVar(&o.States, "state", nil,
		"only those in these states, separated by commas: "+strings.Join(client.States(), ", "))
	c.Flags().StringVar(&o.Marker, "marker", "", "only those after the node with this UUID")
	c.Flags().BoolVar(&unexpected, "unexpected", false, "only machines that are not as ordered, and how they differ")
	c.Flags().IntVar(&o.Limit, "limit", 0, "at most so many; 0 is all")
	servers.StaleFlag(c, &stale)
	term.Complete(c, "state", client.States()...)
	c.RunE = func(c *cobra.Command, _ []string) error {
		for _, s := range o.States {
			if !slices.Contains(client.States(), s) {
				return term.Usage("--state %s: it is one of %s", s, strings.Join(client.States(), ", "))
			}
		}
		if o.Limit < 0 {
			return term.Usage("--limit %d: it cannot be negative", o.Limit)
		}
		if unexpected && (len(o.States) > 0 || o.Marker != "" || o.Limit != 0) {
			return term.Usage("--unexpected lists all machines that differ: it takes no --state, --marker and --limit")
		}
		web, err := f.Reader(stale)
		switch {
		case err != nil:
			return err
		case unexpected:
			return listUnexpected(c.Context(), t, web)
		}
		return listIntrospections(c.Context(), t, web, o)
	}
	return c
}

func listIntrospections(ctx context.Context, t *term.Terminal, web *client.Client, o client.ListOptions) error {
	var rows []client.Introspection
	for s, err := range web.List(ctx, o) {
		if err != nil {
			return err
		}
		rows = append(rows, s)
	}
	mark, names := t.Style(), nodeNames(ctx, t, web, rows)
	found := make(map[string]string) // what stops the machines of nodes, for a column that -o wide has alone
	mayBeStopped := func(i client.Introspection) bool {
		return i.State == client.StateWaiting || i.State == client.StateError
	}
	if t.Format == "wide" && slices.ContainsFunc(rows, mayBeStopped) {
		stopped, err := web.Hardware().Stopped(ctx)
		if err != nil {
			t.Warn("what stops machines is missing: %s", term.Printable(err.Error()))
		}
		for _, n := range stopped {
			found[n.UUID] = strings.Join(term.Each(n.Findings, func(f client.BootFinding) string {
				return f.Code + ": " + f.Text
			}), "; ")
		}
	}
	type row struct {
		UUID, Name, State, Started, Finished, Error string
		Finding                                     string `col:"wide"`
	}
	return t.Show(rows, term.Each(rows, func(s client.Introspection) row {
		return row{s.UUID, term.Printable(names[s.UUID]), mark.BadIf(s.State == client.StateError, s.State),
			shownTime(&s.StartedAt), shownTime(s.FinishedAt), t.Clip(s.Why()), term.Printable(found[s.UUID])}
	}))
}

// shownTime prints a time of the API with its zone, to the second.
func shownTime(t *client.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
