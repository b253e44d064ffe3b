package node

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// maxHistoryPages bounds the pages of one history: the ring of events has no more.
const maxHistoryPages = 110

// nodeHistory is what happened to a node, and what it waits for.
type nodeHistory struct {
	Node     string     `json:"node"`
	Steps    []nodeStep `json:"steps"`
	State    string     `json:"state,omitempty"`
	WaitsFor string     `json:"waits_for,omitempty"` // of the first of Waits
	Waits    []api.Wait `json:"waits,omitempty"`
	Error    string     `json:"error,omitempty"` // the whole text
	Hint     string     `json:"hint,omitempty"`  // what to do about it
	// Findings are why its machine does not call, or did not in time.
	Findings []client.BootFinding `json:"findings,omitempty"`
}

// nodeStep is one event of a node and how long it lasted.
type nodeStep struct {
	Time   string `json:"time"`
	Index  uint64 `json:"index"`
	Action string `json:"action"`
	Cause  string `json:"cause,omitempty"`
	Peer   string `json:"peer,omitempty"`
	// Seconds is the time until the next step, of the last one of an introspection
	// under way until now; 0 of an end.
	Seconds float64 `json:"seconds"`
	Text    string  `json:"text"`
}

func nodeHistoryCommand(t *term.Terminal, f *servers.Flags) *cobra.Command {
	return servers.Verb[nodeHistory]{
		Use:   "history NODE",
		Short: "Show each step of a node's introspections, and what it waits for",
		Long: "Show each step of a node's introspections, as far back as events are kept: when, in which entry of the log, on which peer, for how\n" +
			"long; among them, by time, what was heard of its machine's newest boot (docs/pxe.md#recorder). Then what the node waits for now or,\n" +
			"of an introspection that failed, the reason and what to do; and what keeps the machine from coming up.",
		Example: "trivet node history node-1\ntrivet node history node-1 -o wide",
		Ask: func(ctx context.Context, web *client.Client, args []string) (nodeHistory, error) {
			id, err := servers.NodeID(ctx, web, args[0])
			if err != nil {
				return nodeHistory{}, err
			}
			return readHistory(ctx, t, web, id)
		},
		Show: func(h nodeHistory) error { return printNodeHistory(t, h) },
	}.Command(f)
}

// readHistory reads the events and the present state of a node.
func readHistory(ctx context.Context, t *term.Terminal, web *client.Client, node string) (nodeHistory, error) {
	steps, err := stepsOf(ctx, web, node)
	if err != nil {
		return nodeHistory{}, err
	}
	h := nodeHistory{Node: node, Steps: steps}
	now, err := web.Status(ctx, node)
	switch {
	case err == nil:
		h.State = now.State
		if now.State == "error" {
			h.Error, h.Hint = now.Why(), api.Remedy(node, now.Why())
		}
	case !client.HasStatus(err, http.StatusNotFound) || len(h.Steps) == 0:
		return h, fmt.Errorf("%s: %w", node, err)
	}
	waits, err := client.NodeWaits(ctx, web, node)
	if err != nil && !client.HasStatus(err, http.StatusNotFound) { // a peer of an earlier release does not know
		return h, err
	}
	for _, w := range waits {
		h.Waits = append(h.Waits, api.Wait(w))
	}
	if len(waits) > 0 {
		h.WaitsFor = waits[0].For
	}
	if last := len(h.Steps) - 1; last >= 0 && underWay(now.State) {
		if began := servers.Moment(h.Steps[last].Time); !began.IsZero() {
			h.Steps[last].Seconds = max(0, t.Wall().Sub(began).Seconds())
		}
	}
	h.addBoot(ctx, t, web)
	return h, nil
}

// stepsOf reads all events of a node that are kept, and tells how long each step lasted.
func stepsOf(ctx context.Context, web *client.Client, node string) ([]nodeStep, error) {
	q := client.EventQuery{After: "0", Node: node, Kinds: []string{"introspection"}}
	var events []client.Event
	for range maxHistoryPages {
		page, err := web.Events(ctx, q)
		if err != nil {
			return nil, err
		}
		if page.Reset != nil { // it cannot be the whole that was read before
			events = nil
		}
		events = append(events, page.Events...)
		if len(page.Events) == 0 {
			break
		}
		q.After = page.Last
	}
	steps := make([]nodeStep, len(events))
	var before time.Time
	for i, e := range events {
		steps[i] = nodeStep{Time: e.Time, Index: e.Index, Action: e.Action, Cause: e.Fields["cause"], Peer: e.Peer,
			Text: e.Text}
		at := servers.Moment(e.Time)
		if i > 0 && !at.IsZero() && !before.IsZero() && underWay(events[i-1].Action) {
			steps[i-1].Seconds = max(0, at.Sub(before).Seconds())
		}
		before = at
	}
	return steps, nil
}

// underWay reports whether an introspection in a state has not ended.
func underWay(state string) bool {
	parsed, known := introspection.ParseNodeState(state)
	return known && parsed.Active()
}

func printNodeHistory(t *term.Terminal, h nodeHistory) error {
	return t.Show(h, func() error {
		type row struct {
			Key                                 string `col:"name"`
			Time, Index, Step, Cause, Peer, For string
			What                                string `col:"wide"`
		}
		err := t.Show(h.Steps, term.Each(h.Steps, func(s nodeStep) row {
			index, step, took := fmt.Sprint(s.Index), s.Action, "-"
			if s.Cause == causeBoot && s.Index == 0 { // of a boot what happened
				index, step = "-", s.Text
			}
			switch d := time.Duration(s.Seconds * float64(time.Second)); {
			case s.Seconds == 0:
			case d < 10*time.Second:
				took = d.Round(time.Millisecond).String()
			default:
				took = d.Round(time.Second).String()
			}
			return row{index, servers.EventTime(client.Event{Time: s.Time}), index, term.Printable(step),
				term.Printable(s.Cause), term.Printable(s.Peer), took, term.Printable(s.Text)}
		}))
		if err != nil || t.Format == "name" {
			return err
		}
		switch {
		case h.Error != "":
			_, err = fmt.Fprintf(t.Out, "\nIt failed: %s\nWhat to do: %s\n", t.Style().Bad(term.Printable(h.Error)), h.Hint)
		case h.State != "":
			_, err = fmt.Fprintf(t.Out, "\nThe node is %s.\n", term.Printable(h.State))
		}
		for _, w := range h.Waits {
			if err == nil {
				_, err = fmt.Fprintf(t.Out, "%s.\nWhat to do: %s\n", term.Printable(w.Text(t.Wall())), term.Printable(w.Do))
			}
		}
		for _, f := range h.Findings {
			text := fmt.Sprintf("%s: %s\n", t.Style().Doubtful(term.Printable(f.Code)), term.Printable(f.Text))
			if !strings.HasPrefix(h.Hint, f.Remedy) { // else the hint says it
				text += "  " + term.Printable(f.Remedy) + "\n"
			}
			if err == nil {
				_, err = fmt.Fprint(t.Out, text)
			}
		}
		return err
	})
}
