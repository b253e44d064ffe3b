package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/trivet-ha/trivet/inspector/accept"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/rules"
)

// maxImportBody bounds a record with both of its documents.
const maxImportBody = 2*api.MaxDocument + maxControlBody

// importLimit bounds the work on one record or rule.
const importLimit = 60 * time.Second

// Importer takes over what an ironic-inspector left. With check it only tells
// what that would do.
type Importer interface {
	ImportRecord(ctx context.Context, f accept.Foreign, check bool) (accept.Import, error)
	// ImportRule takes a body that package rules has checked.
	ImportRule(ctx context.Context, id string, body []byte, check bool) (accept.Import, error)
}

// ImportedRecord is an introspection that ended in an ironic-inspector.
type ImportedRecord struct {
	UUID        string          `json:"uuid"`
	State       string          `json:"state"` // finished or error
	Error       string          `json:"error,omitempty"`
	StartedAt   *time.Time      `json:"started_at,omitempty"`
	FinishedAt  *time.Time      `json:"finished_at,omitempty"`
	ManageBoot  bool            `json:"manage_boot"`
	Unprocessed json.RawMessage `json:"unprocessed,omitempty"`
	Processed   json.RawMessage `json:"processed,omitempty"`
}

// ImportResult is what became, or with ?check=1 would become, of a record or
// rule.
type ImportResult struct {
	Created      bool   `json:"created"`
	Documents    int    `json:"documents"`
	Kept         string `json:"kept,omitempty"`          // why the cluster's own record stays
	ExpiresAfter string `json:"expires_after,omitempty"` // of every record here, "" never
	DataHidden   bool   `json:"data_hidden,omitempty"`   // inspection.store_data is off
}

// checking is whether nothing is to be changed.
func checking(ctx echo.Context) bool { return ctx.QueryParam("check") == "1" }

// importer returns a refusal where nothing is introspected.
func (c *Control) importer() (Importer, error) {
	if c.Import == nil {
		return nil, conflict("", "this peer does not introspect")
	}
	return c.Import, nil
}

func (c *Control) importRecord(ctx echo.Context) error {
	to, err := c.importer()
	if err != nil {
		return err
	}
	var in ImportedRecord
	if err := body(ctx, maxImportBody, &in); err != nil {
		return err
	}
	state, known := introspection.ParseNodeState(in.State)
	if !known {
		return invalid("state %q is none", in.State)
	}
	limited, cancel := context.WithTimeout(ctx.Request().Context(), importLimit)
	defer cancel()
	out, err := to.ImportRecord(limited, accept.Foreign{
		Node: in.UUID, State: state, Error: in.Error, Started: timeOf(in.StartedAt), Finished: timeOf(in.FinishedAt),
		ManageBoot: in.ManageBoot, Unprocessed: in.Unprocessed, Processed: in.Processed,
	}, checking(ctx))
	return imported(ctx, out, err)
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func (c *Control) importRule(ctx echo.Context) error {
	to, err := c.importer()
	if err != nil {
		return err
	}
	text, release, err := api.ControlBody(ctx, api.MaxRuleBody)
	defer release()
	if err != nil {
		return err
	}
	definition, err := rules.Parse(text)
	if err != nil {
		return err
	}
	if definition.UUID == "" {
		return invalid("it has no UUID")
	}
	limited, cancel := context.WithTimeout(ctx.Request().Context(), importLimit)
	defer cancel()
	out, err := to.ImportRule(limited, definition.UUID, definition.Body, checking(ctx))
	return imported(ctx, out, err)
}

func imported(ctx echo.Context, out accept.Import, err error) error {
	if err != nil {
		return err
	}
	result := ImportResult{Created: out.Created, Documents: out.Documents, Kept: out.Kept, DataHidden: out.Hidden}
	if out.Expires > 0 {
		result.ExpiresAfter = out.Expires.String()
	}
	return ctx.JSON(http.StatusOK, result)
}
