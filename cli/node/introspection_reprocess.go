package node

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
)

// maxDocument bounds the data of a node that is sent: the API takes no more.
const maxDocument = 8 << 20 // bytes

func introspectionReprocess(t *term.Terminal, f *servers.Flags) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "reprocess NODE…",
		Short: "Have the hooks and rules of today work on data that was sent before",
		Long: "Have the hooks and rules of today work on the data of the nodes' last introspections; - reads nodes from standard input.\n" +
			"No machine is switched on or off. With --data-file the data of one node is replaced by a document, as the ramdisk would send it.\n" +
			"The command ends when the work was accepted; 'trivet introspection list' shows how it goes.",
		Example: "trivet introspection reprocess node-1\ntrivet introspection reprocess node-1 --data-file changed.json",
	}
	c.Flags().StringVar(&file, "data-file", "",
		"JSON document to work on in the place of the stored data; - is standard input")
	c.RunE = func(c *cobra.Command, args []string) error {
		document, err := readDocument(t, file, args)
		if err != nil {
			return err
		}
		reapply := func(ctx context.Context, web *client.Client, node string) error {
			return web.Reapply(ctx, node, document)
		}
		return actOnNodes(c.Context(), t, f, args, reapply, waiting{})
	}
	return c
}

// readDocument reads what --data-file names for the one node of args, nil for no
// file.
func readDocument(t *term.Terminal, file string, args []string) ([]byte, error) {
	switch {
	case file == "":
		return nil, nil
	case len(args) != 1 || args[0] == "-":
		return nil, term.Usage("--data-file: it is the data of one node; name that node")
	}
	text, err := t.ReadInput(file, maxDocument)
	switch {
	case err != nil:
		return nil, term.Usage("--data-file: %w", err)
	case len(text) == 0:
		return nil, term.Usage("--data-file %s: it is empty", file)
	}
	return text, nil
}
