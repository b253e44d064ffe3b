package data

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/inspector/inspectordb"
)

// Bounds of an import.
const (
	importsAtOnce = 8           // records on their way to the peer
	importTimeout = time.Minute // without a leader, for each record
	importPause   = 500 * time.Millisecond
)

// takeover is one run of the import of a database. Its report is written under
// mu while records are on their way.
type takeover struct {
	term   *term.Terminal
	peer   term.Peer
	source *inspectordb.Source
	skip   map[string]bool // by UUID in lower case: it was met

	mu      sync.Mutex
	report  importReport
	warned  bool
	running int // records that have not ended
}

// run checks everything and then, unless that is all that is wanted, writes.
func (t *takeover) run(ctx context.Context) error {
	rules, err := t.source.Rules(ctx)
	if err != nil {
		return err
	}
	total, err := t.source.Count(ctx)
	if err != nil {
		return err
	}
	if len(rules) > fsm.MaxRules || total > fsm.MaxNodes {
		return term.Fail(term.ExitConflict, "nothing was changed; delete what is not needed", "the database has %d rules and %d records; a cluster has %d and %d at most", len(rules), total, fsm.MaxRules, fsm.MaxNodes)
	}
	if err := t.pass(ctx, rules, total, true); err != nil {
		return err
	}
	if err := t.verdict("nothing was changed"); err != nil || t.report.DryRun {
		return err
	}
	t.report = importReport{Database: t.report.Database}
	t.running = 0
	if err := t.pass(ctx, rules, total, false); err != nil {
		return fmt.Errorf("%w; what was written stays: repeat the import, which goes on where it ended", err)
	}
	return t.verdict("all others were imported")
}

// verdict is the error of what was refused, and of a --skip for nothing.
func (t *takeover) verdict(rest string) error {
	for id, met := range t.skip {
		if !met {
			return term.Usage("--skip %s: the database has no such rule or record; %s", id, rest)
		}
	}
	switch {
	case t.running > 0:
		return term.Fail(term.ExitConflict, "start ironic-inspector again, wait until they have ended or abort them, then stop it and repeat this; --skip UUID leaves one out",
			"%d introspections have not ended, and none may be running when a database is taken over; %s", t.running, rest)
	case len(t.report.Refused) > 0:
		return term.Fail(term.ExitConflict, "mend them in ironic-inspector, or leave them out with --skip UUID", "%d rules or records cannot be taken over; %s", len(t.report.Refused), rest)
	}
	return nil
}

// pass checks, or writes, all rules in their order and then all records.
func (t *takeover) pass(ctx context.Context, rules []inspectordb.Rule, total int, check bool) error {
	bar := t.term.NewProgress()
	defer bar.Clear()
	for _, r := range rules {
		if t.skips(r.UUID) {
			t.report.Rules.Skipped++
			continue
		}
		out, refusal, err := t.send(ctx, "/v1/import/rules", r.Body, check)
		switch {
		case err != nil:
			return fmt.Errorf("rule %s: %w", r.UUID, err)
		case refusal != "":
			t.refuse(&t.report.Rules, "rule", r.UUID, refusal)
		default:
			t.report.Rules.add(out)
		}
	}
	return t.records(ctx, bar, total, check)
}

// records hands every record of the database to several senders.
func (t *takeover) records(ctx context.Context, bar *term.Progress, total int, check bool) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	records := make(chan api.ImportedRecord) // closed here, after the last
	var sending sync.WaitGroup
	for range importsAtOnce {
		sending.Go(func() {
			for r := range records {
				if err := t.record(ctx, r, check); err != nil {
					giveUp(fmt.Errorf("record %s: %w", r.UUID, err))
				}
			}
		})
	}
	done, doing := 0, map[bool]string{true: "records checked", false: "records imported"}[check]
	err := t.source.Nodes(ctx, func(n inspectordb.Node) error {
		bar.Show(done, total, doing)
		done++
		r, wanted, err := t.foreign(ctx, n)
		if err != nil || !wanted {
			return err
		}
		select {
		case records <- r:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	close(records)
	sending.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause // what the reading met is only that it was ended
	}
	return err
}

// foreign makes of a node's record and data what the peer is sent. It is not
// wanted if it is left out or refused.
func (t *takeover) foreign(ctx context.Context, n inspectordb.Node) (r api.ImportedRecord, wanted bool, err error) {
	if !t.wanted(n) {
		return r, false, nil
	}
	r = api.ImportedRecord{UUID: n.UUID, State: n.State, Error: n.Error, ManageBoot: n.ManageBoot, FinishedAt: &n.Finished}
	if !n.Started.IsZero() {
		r.StartedAt = &n.Started
	}
	switch {
	case n.Error != "": // those of before ironic-inspector had states are all finished there
		r.State = "error"
	case n.State == "error":
		r.Error = "ironic-inspector gave no reason"
	}
	data, err := t.source.Data(ctx, n.UUID)
	var unreadable *inspectordb.DocumentError
	if errors.As(err, &unreadable) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.refuse(&t.report.Records, "record", n.UUID, unreadable.Reason)
		return r, false, nil
	}
	r.Unprocessed, r.Processed = data.Unprocessed, data.Processed
	return r, err == nil, err
}

// wanted notes a record that is left out, or has not ended.
func (t *takeover) wanted(n inspectordb.Node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	ended := (n.State == "finished" || n.State == "error") && !n.Finished.IsZero()
	switch {
	case t.skips(n.UUID):
		t.report.Records.Skipped++
		return false
	case !ended:
		t.refuse(&t.report.Records, "record", n.UUID, fmt.Sprintf("its introspection is %s and has not ended", n.State))
		t.running++
	}
	return ended
}

// record sends one record.
func (t *takeover) record(ctx context.Context, r api.ImportedRecord, check bool) error {
	body, refusal, err := encodeRecord(r)
	var out api.ImportResult
	if err == nil && refusal == "" {
		out, refusal, err = t.send(ctx, "/v1/import/records", body, check)
	}
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.warn(out)
	switch {
	case refusal != "":
		t.refuse(&t.report.Records, "record", r.UUID, refusal)
	case out.Kept != "":
		t.report.Records.Kept++
		t.report.Kept = append(t.report.Kept, importReason{"record", r.UUID, out.Kept})
	default:
		t.report.Records.add(out)
		t.report.Documents.New += out.Documents
		t.report.Documents.Unchanged += documentsOf(r) - out.Documents
	}
	return nil
}

// encodeRecord writes the body of a record, its documents as they are; data that
// is no JSON could not even be sent.
func encodeRecord(r api.ImportedRecord) (body []byte, refusal string, err error) {
	for _, text := range []json.RawMessage{r.Unprocessed, r.Processed} {
		if text != nil && !json.Valid(text) {
			return nil, "its data is not valid JSON", nil
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return nil, "", fmt.Errorf("encode: %w", err)
	}
	return out.Bytes(), "", nil
}

func documentsOf(r api.ImportedRecord) (n int) {
	for _, text := range []json.RawMessage{r.Unprocessed, r.Processed} {
		if text != nil {
			n++
		}
	}
	return n
}

// send asks the peer to import something. While nobody leads it is tried again,
// which is safe: what was done is not done twice. What the peer cannot take over
// is a refusal and no error.
func (t *takeover) send(ctx context.Context, path string, body []byte, check bool) (out api.ImportResult, refusal string, err error) {
	if check {
		path += "?check=1"
	}
	for end := time.Now().Add(importTimeout); ; {
		err = t.post(ctx, path, body, &out)
		var said *api.Error
		if !errors.As(err, &said) {
			return out, "", err
		}
		if said.Code == api.CodeInvalid {
			return out, said.Message, nil
		}
		if said.Code != api.CodeNoLeader && said.Code != api.CodeOutcomeUnknown || time.Now().After(end) {
			return out, "", err
		}
		select {
		case <-time.After(importPause):
		case <-ctx.Done():
			return out, "", context.Cause(ctx)
		}
	}
}

func (t *takeover) post(ctx context.Context, path string, body []byte, out *api.ImportResult) error {
	ctx, cancel := context.WithTimeout(ctx, t.peer.Limit)
	defer cancel()
	resp, err := t.peer.Do(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("decode the peer's answer: %w", err)
	}
	return nil
}

// skips reports whether something is left out.
func (t *takeover) skips(id string) bool {
	id = strings.ToLower(id)
	_, skip := t.skip[id]
	if skip {
		t.skip[id] = true
	}
	return skip
}

// refuse notes what cannot be taken over.
func (t *takeover) refuse(count *importCount, kind, id, reason string) {
	count.Refused++
	t.report.Refused = append(t.report.Refused, importReason{kind, id, reason})
}

// add counts what the peer did.
func (c *importCount) add(out api.ImportResult) {
	if out.Created {
		c.New++
	} else {
		c.Unchanged++
	}
}

// warn tells once what the peer's configuration will do to what is imported.
func (t *takeover) warn(out api.ImportResult) {
	if t.warned {
		return
	}
	t.warned = true
	if out.ExpiresAfter != "" {
		t.term.Warn("this cluster deletes records %s after they were imported, which ironic-inspector never does: inspection.report_expiry: 0s keeps them", out.ExpiresAfter)
	}
	if out.DataHidden {
		t.term.Warn("stored data is imported and not shown: inspection.store_data is off")
	}
}
