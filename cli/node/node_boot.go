package node

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
)

// addBoot puts what was heard of the node's newest boot among the steps, by time, and adds why
// its machine does not call, or did not in time. A server of before knows neither.
func (h *nodeHistory) addBoot(ctx context.Context, t *term.Terminal, web *client.Client) {
	boot, err := web.Hardware().Boot(ctx, h.Node)
	if err != nil {
		if !client.HasStatus(err, http.StatusNotFound) {
			t.Warn("what was heard of its boot is missing: %s", term.Printable(err.Error()))
		}
		return
	}
	for _, s := range boot.Steps {
		h.Steps = append(h.Steps, nodeStep{Time: s.Time, Action: s.Kind, Cause: causeBoot, Peer: s.Peer,
			Seconds: max(0, servers.Moment(s.Until).Sub(servers.Moment(s.Time)).Seconds()), Text: s.Text})
	}
	slices.SortStableFunc(h.Steps, func(a, b nodeStep) int { // what cannot be read stands first
		return servers.Moment(a.Time).Compare(servers.Moment(b.Time))
	})
	h.Findings = boot.Findings
	if h.Error != "" && len(boot.Findings) > 0 {
		h.Hint = boot.Findings[0].Remedy + "; then 'trivet introspection start " + h.Node + "'"
	}
}

// causeBoot is the cause of a step that was heard on the network, which no entry of the log made.
const causeBoot = "boot"

// shown is a step's name in a table: of a boot what happened, of an introspection its state.
func (s nodeStep) shown() (index, step string) {
	if s.Cause == causeBoot && s.Index == 0 {
		return "-", s.Text
	}
	return fmt.Sprint(s.Index), s.Action
}

// findingsOf returns what stops the machines of nodes, for a column that -o wide has alone.
func findingsOf(ctx context.Context, t *term.Terminal, web *client.Client,
	rows []client.Introspection) map[string]string {
	mayBeStopped := func(i client.Introspection) bool {
		return i.State == client.StateWaiting || i.State == client.StateError
	}
	if t.Format != "wide" || !slices.ContainsFunc(rows, mayBeStopped) {
		return nil
	}
	stopped, err := web.Hardware().Stopped(ctx)
	if err != nil {
		t.Warn("what stops machines is missing: %s", term.Printable(err.Error()))
		return nil
	}
	found := make(map[string]string, len(stopped))
	for _, n := range stopped {
		var all []string
		for _, f := range n.Findings {
			all = append(all, f.Code+": "+f.Text)
		}
		found[n.UUID] = strings.Join(all, "; ")
	}
	return found
}
