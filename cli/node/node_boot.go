package node

import (
	"context"
	"net/http"
	"slices"

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
