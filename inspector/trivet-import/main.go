// Command trivet-import reads the database of an ironic-inspector and writes what
// 'trivet import inspector-db' takes. It is a program of its own so that the daemon
// has no database drivers in it.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/trivet-ha/trivet/inspector/inspectordb"
)

const usage = `Usage: trivet-import URL > FILE

Read the database of an ironic-inspector: rules, records of introspections and
stored data, all of one moment. The database is only read. Standard output is
what 'trivet import inspector-db FILE' takes into a cluster.

URL is what stands in inspector.conf, section [database], option connection:
sqlite:////FILE, mysql+pymysql://USER:PASSWORD@HOST/NAME or postgresql://...
With - it is read from standard input, so that no list of processes shows the
password.

Exit codes: 0 done, 1 failed, 2 usage.

Example:
  umask 027
  trivet-import sqlite:////var/lib/ironic-inspector/ironic-inspector.sqlite \
    > inspector.jsonl
  trivet import inspector-db inspector.jsonl --dry-run
`

// maxURL bounds a URL on standard input, in bytes.
const maxURL = 4096

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the program; it returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	if len(args) == 1 && (args[0] == "--help" || args[0] == "-h") {
		fmt.Fprint(out, usage)
		return 0
	}
	if len(args) != 1 || strings.HasPrefix(args[0], "-") && args[0] != "-" {
		fmt.Fprint(errw, "trivet-import: error: one argument is wanted, the URL of the database, or - for standard input\n"+
			"trivet-import: hint: see 'trivet-import --help'\n")
		return 2
	}
	if err := export(ctx, args[0], in, out); err != nil {
		fmt.Fprintf(errw, "trivet-import: error: %v\n"+
			"trivet-import: hint: the database must exist and be readable for this user and from this host\n", err)
		return 1
	}
	return 0
}

func export(ctx context.Context, url string, in io.Reader, out io.Writer) error {
	if url == "-" {
		text, err := io.ReadAll(io.LimitReader(in, maxURL+1))
		if err != nil {
			return fmt.Errorf("read the URL of the database from standard input: %w", err)
		}
		url = string(text)
	}
	w := bufio.NewWriter(out)
	err := inspectordb.Export(ctx, url, w)
	return errors.Join(err, w.Flush())
}
