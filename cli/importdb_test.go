package cli

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite"

	"github.com/trivet-ha/trivet/cli/trivet-import/inspectordb"
)

// exportDatabase is trivet-import database: export URL FILE.
func exportDatabase(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: export URL FILE")
	}
	file, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	ts.Check(inspectordb.Export(context.Background(), args[0], file))
	ts.Check(file.Close())
}

// fillDatabase makes an SQLite file with the tables of ironic-inspector unless it
// is there, and runs statements on it: database FILE STATEMENTS.
func fillDatabase(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: database FILE STATEMENTS")
	}
	path := ts.MkAbs(args[0])
	statements := ts.ReadFile(args[1])
	if _, err := os.Stat(path); err != nil {
		schema, err := os.ReadFile(
			filepath.Join(ts.Getenv("SOURCE"), "cli", "trivet-import", "inspectordb", "testdata", "schema.sql"))
		ts.Check(err)
		statements = string(schema) + statements
	}
	db, err := sql.Open("sqlite", path)
	ts.Check(err)
	_, err = db.Exec(statements)
	ts.Check(err)
	ts.Check(db.Close())
}
