package accept

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
)

// Foreign is an introspection that ended in an ironic-inspector, and what that
// stored of it.
type Foreign struct {
	Node       string
	State      introspection.NodeState // finished or error
	Error      string                  // of error
	Started    time.Time               // zero: not known
	Finished   time.Time
	ManageBoot bool
	// The documents as JSON objects, nil where there is none.
	Unprocessed, Processed []byte
}

// Import tells what an import did, or would do.
type Import struct {
	Created   bool // the record or rule is new
	Documents int  // stored with it
	// Kept says why the cluster's own record stays instead; "": it does not.
	Kept string
	// Expires is when records are deleted after they were imported; 0: never.
	// Hidden says that stored data is not shown, since storing is off.
	Expires time.Duration
	Hidden  bool
}

// ImportRecord takes over an introspection that ended elsewhere; with check it
// only tells what that would do. A node that has another record here keeps it.
// What cannot be taken over is a *Refusal.
func (s *Service) ImportRecord(ctx context.Context, f Foreign, check bool) (Import, error) {
	out := Import{Expires: s.o.Live.Config().ReportExpiry, Hidden: !s.o.Live.Config().StoreData}
	command, err := foreign(s.o.Packer, f)
	if err != nil {
		return out, err
	}
	v, err := inspector.ReadView(ctx, s.o.Log, inspector.Linearizable)
	if err == nil {
		err = v.Admits(command)
	}
	if err != nil {
		return out, err
	}
	did, err := v.Imports(command)
	if err == nil && !check && did != (introspection.Imported{}) {
		parts := []introspection.ImportRecord{command}
		if len(command.Unprocessed.Data)+len(command.Processed.Data) > blobs.MaxBlob { // too much for one entry
			first, second := command, command
			first.Processed, second.Unprocessed = blobs.Packed{}, blobs.Packed{}
			parts = []introspection.ImportRecord{first, second}
		}
		for i := 0; i < len(parts) && err == nil; i++ {
			_, err = inspector.Commit(ctx, s.o.Do, parts[i])
		}
	}
	if refused, ok := errors.AsType[*fsm.Error](err); ok && refused.Code == fsm.Conflict {
		out.Kept = refused.Message
		return out, nil
	}
	out.Created, out.Documents = did.Created, did.Documents
	return out, err
}

// foreign makes the command of a record, with its documents packed as this
// cluster stores them.
func foreign(packer *blobs.Packer, f Foreign) (c introspection.ImportRecord, err error) {
	c = introspection.ImportRecord{
		Node: f.Node, State: f.State, ManageBoot: f.ManageBoot, Error: f.Error,
		StartedMicros: unixMicros(f.Started), FinishedMicros: unixMicros(f.Finished),
	}
	base, err := document.Parse([]byte(inspector.EmptyDocument))
	if err == nil && f.Unprocessed != nil {
		if base, err = document.Parse(f.Unprocessed); err != nil {
			return c, inspector.Refuse(http.StatusBadRequest, "its unprocessed data: %v", err)
		}
		c.Unprocessed, err = packer.Pack(base.JSON())
		err = inspector.TooLarge(err)
	}
	if err != nil {
		return c, err
	}
	if f.Processed != nil { // packed as the changes to the one it was made from
		data, err := document.Parse(f.Processed)
		if err != nil {
			return c, inspector.Refuse(http.StatusBadRequest, "its processed data: %v", err)
		}
		changes, err := base.ChangesTo(data)
		if err != nil {
			return c, fmt.Errorf("its processed data: %w", err)
		}
		if c.Processed, err = packer.Pack(changes); err != nil {
			return c, inspector.TooLarge(err)
		}
	}
	if err := c.Validate(); err != nil {
		return c, inspector.Refuse(http.StatusBadRequest, "%v", err)
	}
	return c, nil
}

func unixMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// ImportRule takes over a rule that package rules has checked, behind those that
// are there; with check it only tells what that would do. Another rule of its
// UUID is a *Refusal.
func (s *Service) ImportRule(ctx context.Context, id string, body []byte, check bool) (Import, error) {
	v, err := inspector.ReadView(ctx, s.o.Log, inspector.Linearizable)
	if err != nil {
		return Import{}, err
	}
	if have, there := v.Rule(id); there {
		if !bytes.Equal(have.Body, body) {
			return Import{}, inspector.Refuse(http.StatusBadRequest, "another rule has this UUID here")
		}
		return Import{}, nil
	}
	if len(body) > ruleset.MaxRule {
		return Import{}, inspector.Refuse(http.StatusBadRequest, "it has %d bytes, allowed are %d", len(body),
			ruleset.MaxRule)
	}
	if !check {
		_, err = s.CreateRule(ctx, id, body)
	}
	return Import{Created: err == nil}, err
}
