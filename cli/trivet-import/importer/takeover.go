package importer

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
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Bounds of an import.
const (
	importsAtOnce = 8           // records on their way to the peer
	importTimeout = time.Minute // without a leader, for each record
	importPause   = 500 * time.Millisecond
)

// importResult is what became, or with ?check=1 would become, of a record or rule.
type importResult struct {
	Created      bool   `json:"created"`
	Documents    int    `json:"documents"`
	Kept         string `json:"kept"`          // why the cluster's own record stays
	ExpiresAfter string `json:"expires_after"` // of every record here, "" never
	DataHidden   bool   `json:"data_hidden"`   // inspection.store_data is off
}

// takeover is one run of the import of a database. Its report is written under
// mu while records are on their way.
type takeover struct {
	term   *term.Terminal
	peer   term.Peer
	source *export
	skip   map[string]bool // by UUID in lower case: it was met

	mu      sync.Mutex
	report  importReport
	warned  bool
	running int // records that have not ended
}

// run checks everything and then, unless that is all that is wanted, writes.
func (t *takeover) run(ctx context.Context) error {
	if rules, records := t.source.Rules, t.source.Records; rules > ruleset.MaxRules || records > introspection.MaxNodes {
		return term.Fail(term.ExitConflict, "nothing was changed; delete what is not needed",
			"the database has %d rules and %d records; a cluster has %d and %d at most", rules, records, ruleset.MaxRules,
			introspection.MaxNodes)
	}
	if err := t.pass(ctx, true); err != nil {
		return err
	}
	if err := t.verdict("nothing was changed"); err != nil || t.report.DryRun {
		return err
	}
	t.report = importReport{Database: t.report.Database}
	t.running = 0
	if err := t.pass(ctx, false); err != nil {
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
		return term.Fail(term.ExitConflict,
			"start ironic-inspector again, wait until they have ended or abort them, then stop it, and read its database again; --skip UUID leaves one out",
			"%d introspections have not ended, and none may be running when a database is taken over; %s", t.running, rest)
	case len(t.report.Refused) > 0:
		return term.Fail(term.ExitConflict,
			"mend them in ironic-inspector and read its database again, or leave them out with --skip UUID",
			"%d rules or records cannot be taken over; %s", len(t.report.Refused), rest)
	}
	return nil
}

// pass checks, or writes, all rules in their order, and hands every record to
// several senders.
func (t *takeover) pass(ctx context.Context, check bool) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	bar := t.term.NewProgress()
	defer bar.Clear()
	records := make(chan exportedRecord) // closed here, after the last
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
	done, doing := 0, "records imported"
	if check {
		doing = "records checked"
	}
	err := t.source.each(func(l exportLine) error {
		if l.Rule != nil {
			return t.rule(ctx, l.Rule, check)
		}
		bar.Show(done, t.source.Records, doing)
		done++
		r, err := readRecord(l.Record)
		if err != nil || !t.wanted(r) {
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

// rule sends one rule.
func (t *takeover) rule(ctx context.Context, body json.RawMessage, check bool) error {
	var read struct {
		UUID       string `json:"uuid"`
		Unreadable string `json:"unreadable"` // why it could not be exported
	}
	if err := json.Unmarshal(body, &read); err != nil {
		return fmt.Errorf("a rule of the export: %w", err)
	}
	id := read.UUID
	t.mu.Lock()
	skips := t.skips(id)
	switch {
	case skips:
		t.report.Rules.Skipped++
	case read.Unreadable != "":
		t.refuse(&t.report.Rules, "rule", id, read.Unreadable)
	}
	t.mu.Unlock()
	if skips || read.Unreadable != "" {
		return nil
	}
	out, refusal, err := t.send(ctx, "/v1/import/rules", body, check)
	if err != nil {
		return fmt.Errorf("rule %s: %w", id, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if refusal != "" {
		t.refuse(&t.report.Rules, "rule", id, refusal)
		return nil
	}
	t.report.noteWould("rule", id, out)
	t.report.Rules.add(out)
	return nil
}

// wanted notes a record that is left out, has not ended, or could not be read.
func (t *takeover) wanted(r exportedRecord) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	ended := (r.State == "finished" || r.State == "error") && (r.FinishedAt != nil || r.Unreadable != "")
	switch {
	case t.skips(r.UUID):
		t.report.Records.Skipped++
		return false
	case !ended:
		t.refuse(&t.report.Records, "record", r.UUID, fmt.Sprintf("its introspection is %s and has not ended", r.State))
		t.running++
	case r.Unreadable != "":
		t.refuse(&t.report.Records, "record", r.UUID, r.Unreadable)
		return false
	}
	return ended
}

// record sends one record.
func (t *takeover) record(ctx context.Context, r exportedRecord, check bool) error {
	out, refusal, err := t.send(ctx, "/v1/import/records", r.body, check)
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
		t.report.noteWould("record", r.UUID, out)
		t.report.Records.add(out)
		t.report.Documents.New += out.Documents
		t.report.Documents.Unchanged += r.documents() - out.Documents
	}
	return nil
}

// send asks the peer to import something. While there is no leader it tries again,
// which is safe: an import that was done is not done twice. What the peer cannot take
// over is a refusal and no error.
func (t *takeover) send(ctx context.Context, path string, body []byte, check bool) (out importResult, refusal string,
	err error) {
	if check {
		path += "?check=1"
	}
	retry := pace.Retry{Pause: importPause, Budget: importTimeout}
	err = retry.Do(ctx, func(ctx context.Context, _ int) (again bool, err error) {
		err = t.post(ctx, path, body, &out)
		var said *api.Error
		if !errors.As(err, &said) {
			return false, err
		}
		if said.Code == api.CodeInvalid {
			refusal = said.Message
			return false, nil
		}
		return said.Code == api.CodeNoLeader || said.Code == api.CodeOutcomeUnknown, err
	})
	return out, refusal, err
}

func (t *takeover) post(ctx context.Context, path string, body []byte, out *importResult) error {
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
func (c *importCount) add(out importResult) {
	if out.Created {
		c.New++
	} else {
		c.Unchanged++
	}
}

// warn tells once what the peer's configuration will do to what is imported.
func (t *takeover) warn(out importResult) {
	if t.warned {
		return
	}
	t.warned = true
	if out.ExpiresAfter != "" {
		t.term.Warn(
			"this cluster deletes records %s after they were imported, which ironic-inspector never does: inspection.report_expiry: 0s keeps them",
			out.ExpiresAfter)
	}
	if out.DataHidden {
		t.term.Warn("stored data is imported and not shown: inspection.store_data is off")
	}
}
