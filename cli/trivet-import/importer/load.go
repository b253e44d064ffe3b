package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
)

func loadCommand(t *term.Terminal) *cobra.Command {
	var skip []string
	var dry bool
	var socket string
	c := &cobra.Command{
		Use:   "load FILE",
		Short: "Take over what 'database' read, into the cluster of this host",
		Long: `Take over the rules, the records of introspections and the stored data of an
ironic-inspector, which 'trivet-import database' read into FILE, into the
cluster of the peer on this host.

Stop the ironic-inspector before it is read, while no introspection runs: a
record that has not ended is refused. Everything is checked before anything is
written.
To repeat it is safe, also after it was interrupted: what is there already stays
as it is, and so does every record of a node that was introspected here since.
Rules come behind those that are there; one that was deleted here comes back.`,
		Example: "trivet-import load inspector.jsonl --dry-run",
	}
	c.Flags().BoolVar(&dry, "dry-run", false,
		"check everything, print what would be written, as a diff, and the report; write nothing")
	c.Flags().StringSliceVar(&skip, "skip", nil, "UUID of a rule or record to leave out; may be repeated")
	c.Flags().StringVar(&socket, "socket", t.Variable("TRIVET_SOCKET", config.Default().Socket),
		"control interface of the peer; or $TRIVET_SOCKET")
	c.RunE = func(c *cobra.Command, args []string) error {
		return takeOver(c.Context(), t, term.OnSocket(socket), args[0], skip, dry)
	}
	return c
}

// takeOver imports an export and prints the report, also of what was refused.
func takeOver(ctx context.Context, t *term.Terminal, peer term.Peer, file string, skip []string, dry bool) error {
	left := make(map[string]bool)
	for _, id := range skip {
		if _, err := uuid.Parse(id); err != nil {
			return term.Usage("--skip %s: it is not a UUID", id)
		}
		left[strings.ToLower(id)] = false
	}
	source, err := openExport(file)
	if err != nil {
		return err
	}
	to := &takeover{term: t, peer: peer, source: source, skip: left,
		report: importReport{Database: source.Database, DryRun: dry}}
	err = to.run(ctx)
	if err == nil || len(to.report.Refused) > 0 {
		err = errors.Join(printImport(t, to.report), err)
	}
	return errors.Join(err, source.file.Close())
}

// importReport is what became of a database.
type importReport struct {
	Database  string         `json:"database"`
	DryRun    bool           `json:"dry_run"`
	Rules     importCount    `json:"rules"`
	Records   importCount    `json:"records"`
	Documents importCount    `json:"documents"`
	Kept      []importReason `json:"kept"`
	Refused   []importReason `json:"refused"`
	Would     []string       `json:"would,omitempty"` // of a dry run: what the cluster would have more
}

// noteWould notes what the cluster would have more.
func (r *importReport) noteWould(kind, id string, out importResult) {
	switch {
	case !r.DryRun:
	case kind == "rule" && out.Created:
		r.Would = append(r.Would, fmt.Sprintf("rule %s\n", id))
	case out.Created || out.Documents > 0:
		r.Would = append(r.Would, fmt.Sprintf("record %s with %d documents\n", id, out.Documents))
	}
}

// importCount counts what is alike.
type importCount struct {
	New       int `json:"new"`
	Unchanged int `json:"unchanged"`
	Kept      int `json:"kept"`    // the cluster has a record of its own
	Skipped   int `json:"skipped"` // by --skip
	Refused   int `json:"refused"`
}

// importReason says why something was not taken over.
type importReason struct {
	Kind   string `json:"kind"` // rule or record
	UUID   string `json:"uuid"`
	Reason string `json:"reason"`
}

// printImport prints the report; names alone are those of what was refused.
func printImport(t *term.Terminal, r importReport) error {
	if r.Kept == nil {
		r.Kept = []importReason{}
	}
	if r.Refused == nil {
		r.Refused = []importReason{}
	}
	slices.Sort(r.Would) // senders have noted it in any order
	return t.Show(r, func() error {
		if r.DryRun {
			if err := t.PrintDiff("cluster", "", strings.Join(r.Would, "")); err != nil {
				return err
			}
		}
		for _, k := range r.Kept {
			t.Say("%s %s is kept as it is here: %s", k.Kind, k.UUID, k.Reason)
		}
		for _, k := range r.Refused {
			t.Warn("%s %s is refused: %s", k.Kind, k.UUID, k.Reason)
		}
		type row struct {
			What                                   string
			New, Unchanged, Kept, Skipped, Refused int
		}
		of := func(what string, n importCount) row {
			return row{what, n.New, n.Unchanged, n.Kept, n.Skipped, n.Refused}
		}
		return t.Show(r, []row{of("rules", r.Rules), of("records", r.Records), of("documents", r.Documents)})
	})
}
