package importer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/cli/trivet-import/inspectordb"
)

// maxExportLine bounds a line of an export, in bytes: two documents of 8 MiB, and
// what stands around them.
const maxExportLine = 17 << 20

// export is a file that trivet-import wrote: a header, the rules in their order, the
// records.
type export struct {
	file *os.File
	inspectordb.Header
}

// exportLine is any other line.
type exportLine struct {
	Rule   json.RawMessage `json:"rule"`
	Record json.RawMessage `json:"record"`
}

// exportedRecord is what an import looks at of a record, and the body that the peer is
// sent of it.
type exportedRecord struct {
	UUID        string          `json:"uuid"`
	State       string          `json:"state"` // finished or error: it has ended
	FinishedAt  *time.Time      `json:"finished_at"`
	Unprocessed json.RawMessage `json:"unprocessed"`
	Processed   json.RawMessage `json:"processed"`
	Unreadable  string          `json:"unreadable"` // why it, or its data, could not be exported

	body []byte
}

// openExport reads the header. It does not name the file in errors of a name that is
// a URL, which may hold a password.
func openExport(name string) (*export, error) {
	const hint = "write it: 'trivet-import database URL > FILE'"
	if strings.Contains(name, "://") {
		return nil, term.Fail(term.ExitUsage, hint+"; then name FILE here",
			"a file of 'trivet-import database' is wanted here, not the URL of a database")
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, term.Fail(term.ExitUsage, hint, "%w", err)
	}
	e := &export{file: file}
	lines := e.lines()
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &e.Header) != nil || e.Database == "" {
		err := term.Fail(term.ExitUsage, hint, "%s: its first line is not one of 'trivet-import database'", name)
		return nil, errors.Join(err, file.Close())
	}
	return e, nil
}

func (e *export) lines() *bufio.Scanner {
	lines := bufio.NewScanner(e.file)
	lines.Buffer(nil, maxExportLine)
	return lines
}

// each calls f for every line behind the header, from the beginning of the file. A
// file that ends early is an error.
func (e *export) each(f func(exportLine) error) error {
	if _, err := e.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read the export from its beginning, which needs a file and no pipe: %w", err)
	}
	lines, number, rules, records := e.lines(), 0, 0, 0
	for lines.Scan() {
		if number++; number == 1 {
			continue
		}
		var l exportLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("%s, line %d: %w", e.file.Name(), number, err)
		}
		if l.Rule != nil {
			rules++
		} else {
			records++
		}
		if err := f(l); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s, line %d: %w", e.file.Name(), number+1, err)
	}
	if rules != e.Rules || records != e.Records {
		return term.Fail(term.ExitFailed, "write it again with 'trivet-import database', which has to end with exit code 0",
			"%s has %d rules and %d records of the %d and %d that its first line announces", e.file.Name(), rules, records,
			e.Rules, e.Records)
	}
	return nil
}

func readRecord(body json.RawMessage) (r exportedRecord, err error) {
	if err := json.Unmarshal(body, &r); err != nil {
		return r, fmt.Errorf("a record of the export: %w", err)
	}
	r.body = body
	return r, nil
}

// documents is how many documents a record has.
func (r exportedRecord) documents() (n int) {
	for _, text := range []json.RawMessage{r.Unprocessed, r.Processed} {
		if text != nil {
			n++
		}
	}
	return n
}
