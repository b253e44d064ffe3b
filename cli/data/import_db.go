package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/inspector/inspectordb"
)

// maxDatabaseURL bounds a database's URL on standard input, in bytes.
const maxDatabaseURL = 4096

func importInspectorDB(t *term.Terminal, peer term.Peer) *cobra.Command {
	var skip []string
	var dry bool
	c := &cobra.Command{
		Use:   "inspector-db URL",
		Short: "Take over the database of an ironic-inspector: rules, records, stored data",
		Long: "Take over the rules, the records of introspections and the stored data of an ironic-inspector into the cluster of the peer on this host.\n" +
			"URL is what stands in its inspector.conf, section [database], option connection: sqlite:////FILE, mysql+pymysql://USER:PASSWORD@HOST/NAME or postgresql://…\n" +
			"With - it is read from standard input, so that no list of processes shows the password. The database is only read.\n\n" +
			"Stop the ironic-inspector first, while no introspection runs: a record that has not ended is refused. Everything is checked before anything\n" +
			"is written. To repeat it is safe, also after it was interrupted: what is there already stays as it is, and so does every record of a node\n" +
			"that was introspected here since. Rules come behind those that are there; one that was deleted here comes back.",
		Example: "  sed -n '/^\\[database\\]/,/^\\[/ s/^connection *= *//p' /etc/ironic-inspector/inspector.conf | trivet import inspector-db - --dry-run",
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "check everything and report, write nothing")
	c.Flags().StringSliceVar(&skip, "skip", nil, "UUID of a rule or record to leave out; may be repeated")
	c.RunE = func(c *cobra.Command, args []string) error { return takeOver(c.Context(), t, peer, args[0], skip, dry) }
	return c
}

// takeOver imports a database and prints the report, also of what was refused.
func takeOver(ctx context.Context, t *term.Terminal, peer term.Peer, url string, skip []string, dry bool) error {
	url, err := databaseURL(t, url)
	if err != nil {
		return err
	}
	left := make(map[string]bool)
	for _, id := range skip {
		if _, err := uuid.Parse(id); err != nil {
			return term.Usage("--skip %s: it is not a UUID", id)
		}
		left[strings.ToLower(id)] = false
	}
	source, err := inspectordb.Open(ctx, url)
	if err != nil {
		return term.Fail(term.ExitFailed, "nothing was changed; the database needs to be there, and readable for this user and from this host", "%w", err)
	}
	to := &takeover{term: t, peer: peer, source: source, skip: left, report: importReport{Database: source.String(), DryRun: dry}}
	err = to.run(ctx)
	if err == nil || len(to.report.Refused) > 0 {
		err = errors.Join(printImport(t, to.report), err)
	}
	return errors.Join(err, source.Close())
}

// databaseURL reads a URL from standard input if it is -.
func databaseURL(t *term.Terminal, url string) (string, error) {
	if url != "-" {
		return url, nil
	}
	text, err := io.ReadAll(io.LimitReader(t.In, maxDatabaseURL+1))
	if err != nil {
		return "", fmt.Errorf("read the database's URL from standard input: %w", err)
	}
	if strings.TrimSpace(string(text)) == "" {
		return "", term.Usage("standard input holds no URL of a database")
	}
	return string(text), nil
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
	return t.Show(r, func() error {
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
