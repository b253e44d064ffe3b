package importer

import (
	"bufio"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/cli/trivet-import/inspectordb"
	"github.com/trivet-ha/trivet/internal/bounds"
)

// maxURL bounds a URL on standard input, in bytes.
const maxURL = 4096

func databaseCommand(t *term.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "database URL",
		Short: "Read the database of an ironic-inspector, to standard output",
		Long: `Read the database of an ironic-inspector: rules, records of introspections and
stored data, all of one moment. The database is only read. Standard output is
what 'trivet-import load FILE' takes into a cluster.

URL is what stands in inspector.conf, section [database], option connection:
sqlite:////FILE, mysql+pymysql://USER:PASSWORD@HOST/NAME or postgresql://...
With - it is read from standard input, so that no list of processes shows the
password.`,
		Example: "umask 027\ntrivet-import database \\\n  sqlite:////var/lib/ironic-inspector/ironic-inspector.sqlite \\\n  > inspector.jsonl",
		RunE: func(c *cobra.Command, args []string) error {
			const hint = "the database must exist and be readable for this user and from this host"
			url := args[0]
			if url == "-" {
				text, err := io.ReadAll(io.LimitReader(t.In, maxURL+1))
				if err != nil {
					return term.Fail(term.ExitFailed, hint, "read the URL of the database from standard input: %w", err)
				}
				url = string(bounds.WithoutMark(text))
			}
			w := bufio.NewWriter(t.Out)
			err := inspectordb.Export(c.Context(), url, w)
			if err = errors.Join(err, w.Flush()); err != nil {
				return term.Fail(term.ExitFailed, hint, "%w", err)
			}
			return nil
		},
	}
}
