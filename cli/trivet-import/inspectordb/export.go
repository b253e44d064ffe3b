package inspectordb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Header is the first line of an export: what was read, and how many lines of each
// kind follow, so that an export that was cut off is noticed.
type Header struct {
	Database string `json:"ironic_inspector"`
	Rules    int    `json:"rules"`
	Records  int    `json:"records"`
}

// line is each later line: a rule, or a record with its documents. 'trivet-import
// load' reads it.
type line struct {
	Rule   json.RawMessage `json:"rule,omitempty"`
	Record *record         `json:"record,omitempty"`
}

// record is the body that a peer takes, or why it cannot be made.
type record struct {
	UUID        string          `json:"uuid"`
	State       string          `json:"state"`
	Error       string          `json:"error,omitempty"`
	StartedAt   *time.Time      `json:"started_at,omitempty"`
	FinishedAt  *time.Time      `json:"finished_at,omitempty"`
	ManageBoot  bool            `json:"manage_boot"`
	Unprocessed json.RawMessage `json:"unprocessed,omitempty"`
	Processed   json.RawMessage `json:"processed,omitempty"`
	Unreadable  string          `json:"unreadable,omitempty"`
}

// Export writes the whole database as lines of JSON: a header, the rules in their
// order, the records. Everything is of one moment.
func Export(ctx context.Context, url string, w io.Writer) (err error) {
	s, err := Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	rules, err := s.Rules(ctx)
	if err != nil {
		return err
	}
	total, err := s.Count(ctx)
	if err != nil {
		return err
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	if err := out.Encode(Header{s.String(), len(rules), total}); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	for _, r := range rules {
		if err := out.Encode(line{Rule: r.Body}); err != nil {
			return fmt.Errorf("write rule %s: %w", r.UUID, err)
		}
	}
	return s.Nodes(ctx, func(n Node) error {
		r, err := s.record(ctx, n)
		if err == nil {
			err = out.Encode(line{Record: r})
		}
		if err != nil {
			return fmt.Errorf("write record %s: %w", n.UUID, err)
		}
		return nil
	})
}

// record makes of a node's row and documents what a peer takes.
func (s *Source) record(ctx context.Context, n Node) (*record, error) {
	r := &record{UUID: n.UUID, State: n.State, Error: n.Error, ManageBoot: n.ManageBoot, StartedAt: known(n.Started),
		FinishedAt: known(n.Finished), Unreadable: n.Unreadable}
	if r.Unreadable != "" {
		return r, nil
	}
	switch {
	case n.State == "finished" && n.Error != "": // those of before ironic-inspector had states are all finished there
		r.State = "error"
	case n.State == "error" && n.Error == "":
		r.Error = "ironic-inspector gave no reason"
	}
	data, err := s.Data(ctx, n.UUID)
	if unreadable, ok := errors.AsType[*DocumentError](err); ok {
		r.Unreadable = unreadable.Reason
		return r, nil
	}
	for _, text := range [][]byte{data.Unprocessed, data.Processed} {
		if text != nil && !json.Valid(text) {
			r.Unreadable = "its data is not valid JSON"
			return r, err
		}
	}
	r.Unprocessed, r.Processed = data.Unprocessed, data.Processed
	return r, err
}

func known(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}
