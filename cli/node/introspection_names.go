package node

import (
	"context"
	"net/http"
	"time"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
)

const (
	// namesTimeout bounds the wait for names, which only help a reader.
	namesTimeout = 3 * time.Second
	// fewNodes are asked for one by one; for more the whole list is read.
	fewNodes = 8
)

// nodeNames maps the UUIDs of nodes to their names in Ironic, for tables. What
// cannot be had is missing, and said on standard error: the answer itself is
// not held up by it. A node that Ironic has no more, and a server that does not
// know the question, are not worth a word.
func nodeNames(ctx context.Context, t *term.Terminal, web *client.Client,
	rows []client.Introspection) map[string]string {
	if len(rows) == 0 || t.Format != "table" && t.Format != "wide" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, namesTimeout)
	defer cancel()
	var found []client.NodeName
	var err error
	if len(rows) > fewNodes {
		found, err = web.NodeNames(ctx)
	} else {
		found = make([]client.NodeName, len(rows))
		errs := make([]error, len(rows))
		forEach(ctx, web, len(rows), func(ctx context.Context, i int) error {
			found[i], errs[i] = web.NodeName(ctx, rows[i].UUID)
			return errs[i]
		})
		for _, one := range errs {
			if one != nil && !client.HasStatus(one, http.StatusNotFound) {
				err = one
			}
		}
	}
	if err != nil && !client.HasStatus(err, http.StatusNotFound) {
		t.Warn("names of nodes are missing: %s", term.Printable(err.Error()))
	}
	names := make(map[string]string, len(found))
	for _, n := range found {
		names[n.UUID] = n.Name
	}
	return names
}
