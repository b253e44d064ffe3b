package inspectordb

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Bounds of what is read.
const (
	// MaxDocument is the greatest document that is read, in bytes.
	MaxDocument = 8 << 20
	// pageRows is how many records are read at once.
	pageRows = 500
)

// schemaVersion is the only schema that is read: that of ironic-inspector 11.1
// and, as no later one has a newer, of all that followed.
const schemaVersion = "b55109d5063a"

// Source is the content of a database at one moment. It belongs to one
// goroutine; Close ends it.
type Source struct {
	db      *sql.DB
	tx      *sql.Tx
	d       dialect
	address address
}

// Open connects to a database named as in the option connection of section
// [database] of inspector.conf, and begins to read. No error tells the password. The
// context lasts as long as the source.
func Open(ctx context.Context, url string) (*Source, error) {
	a, err := parse(url)
	if err != nil {
		return nil, err
	}
	db, d, err := a.connect()
	if err != nil {
		return nil, err
	}
	s := &Source{db: db, d: d, address: a}
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%v: %w", a, err), db.Close())
	}
	if err := s.checkVersion(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%v: %w", a, err), s.Close())
	}
	return s, nil
}

// begin starts the transaction that everything is read in. It has no time limit
// of its own: its context would end it in the middle.
func (s *Source) begin(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	if err := s.db.PingContext(limited); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	var err error
	if s.tx, err = s.db.BeginTx(ctx,
		&sql.TxOptions{Isolation: s.d.isolation, ReadOnly: s.d.isolation != sql.LevelDefault}); err != nil {
		return fmt.Errorf("begin a read-only transaction: %w", err)
	}
	return nil
}

// Close ends the transaction and the connection.
func (s *Source) Close() error {
	err := s.tx.Rollback()
	if errors.Is(err, sql.ErrTxDone) { // with its context
		err = nil
	}
	return errors.Join(err, s.db.Close())
}

// String names the database without user, password and options.
func (s *Source) String() string { return s.address.String() }

func (s *Source) checkVersion(ctx context.Context) error {
	var version string
	err := s.one(ctx, "SELECT version_num FROM alembic_version", nil, &version)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return errors.New(
			"its schema has no version: ironic-inspector-dbsync never finished; run 'ironic-inspector-dbsync upgrade'")
	case err != nil:
		return fmt.Errorf("this is no database of ironic-inspector, or its user may not read it: %w", err)
	case version != schemaVersion:
		return fmt.Errorf(
			"its schema has version %q, and only %s is known here, that of ironic-inspector 11.1 and later; run 'ironic-inspector-dbsync upgrade' of one of them first",
			version, schemaVersion)
	}
	return nil
}

// one reads one row.
func (s *Source) one(ctx context.Context, query string, args []any, into ...any) error {
	limited, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	return s.tx.QueryRowContext(limited, query, args...).Scan(into...)
}

// all reads the rows of a query into each.
func (s *Source) all(ctx context.Context, query string, args []any, each func(scan func(...any) error) error) error {
	limited, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	rows, err := s.tx.QueryContext(limited, query, args...)
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// Node is the record of one introspection.
type Node struct {
	UUID, State string
	Started     time.Time // zero: not known
	Finished    time.Time // zero: it has not ended
	Error       string    // "": none
	ManageBoot  bool
	Unreadable  string // what of it cannot be read, which is zero; "": nothing
}

// Count returns how many records there are.
func (s *Source) Count(ctx context.Context) (n int, err error) {
	if err = s.one(ctx, "SELECT COUNT(*) FROM nodes", nil, &n); err != nil {
		err = fmt.Errorf("count the records: %w", err)
	}
	return n, err
}

// Nodes calls each for every record, in the order of their UUIDs. each may read
// from the source; its error ends the reading and is returned.
func (s *Source) Nodes(ctx context.Context, each func(Node) error) error {
	for after := ""; ; {
		page, err := s.page(ctx, after)
		if err != nil {
			return fmt.Errorf("read the records: %w", err)
		}
		for _, n := range page {
			if err := each(n); err != nil {
				return err
			}
		}
		if len(page) < pageRows {
			return nil
		}
		after = page[len(page)-1].UUID
	}
}

func (s *Source) page(ctx context.Context, after string) (page []Node, err error) {
	query := fmt.Sprintf(`SELECT uuid, CAST(state AS %s), %s, %s, error, CASE WHEN manage_boot THEN 1 ELSE 0 END
		FROM nodes WHERE uuid > %s ORDER BY uuid LIMIT %d`, s.d.text, s.d.moment("started_at"), s.d.moment("finished_at"), s.d.mark, pageRows)
	err = s.all(ctx, query, []any{after}, func(scan func(...any) error) error {
		var n Node
		var state, started, finished, why sql.NullString
		var manage int
		if err := scan(&n.UUID, &state, &started, &finished, &why, &manage); err != nil {
			return err
		}
		n.State, n.Error, n.ManageBoot = state.String, why.String, manage == 1
		n.Started = n.moment("started_at", started)
		n.Finished = n.moment("finished_at", finished)
		page = append(page, n)
		return nil
	})
	return page, err
}

// moment reads a time of the record; the original's have no zone and mean UTC. One that is none, as MySQL's
// 0000-00-00, makes that record unreadable, and no other.
func (n *Node) moment(column string, text sql.NullString) time.Time {
	if !text.Valid {
		return time.Time{}
	}
	at, err := time.ParseInLocation(layoutMoment, text.String, time.UTC)
	if err != nil {
		n.Unreadable = fmt.Sprintf("%s is no time: %.40q", column, text.String)
		return time.Time{}
	}
	return at
}

// Data are the documents of a node, nil where there is none.
type Data struct{ Unprocessed, Processed []byte }

// DocumentError says that a document is there and cannot be read.
type DocumentError struct{ Reason string }

// Error implements error.
func (e *DocumentError) Error() string { return e.Reason }

// Data reads what is stored of a node. A document of more than MaxDocument bytes
// is a *DocumentError.
func (s *Source) Data(ctx context.Context, node string) (out Data, err error) {
	query := fmt.Sprintf(`SELECT CASE WHEN processed THEN 1 ELSE 0 END, OCTET_LENGTH(data), CASE WHEN OCTET_LENGTH(data) <= %d THEN data END
		FROM introspection_data WHERE uuid = %s`, MaxDocument, s.d.mark)
	err = s.all(ctx, query, []any{node}, func(scan func(...any) error) error {
		var processed int
		var length sql.NullInt64
		var text []byte
		if err := scan(&processed, &length, &text); err != nil {
			return err
		}
		if length.Int64 > MaxDocument {
			return &DocumentError{fmt.Sprintf("its data (processed=%t) has %d bytes, allowed are %d", processed == 1,
				length.Int64, MaxDocument)}
		}
		if bytes.Equal(text, []byte("null")) {
			text = nil
		}
		if processed == 1 {
			out.Processed = text
		} else {
			out.Unprocessed = text
		}
		return nil
	})
	if _, refused := errors.AsType[*DocumentError](err); err != nil && !refused {
		err = fmt.Errorf("read the data of node %s: %w", node, err)
	}
	return out, err
}
