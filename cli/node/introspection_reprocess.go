package node

import "github.com/trivet-ha/trivet/cli/term"

// maxDocument bounds the data of a node that is sent: the API takes no more.
const maxDocument = 8 << 20 // bytes

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
