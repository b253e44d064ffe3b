package health

import (
	"strings"

	"github.com/trivet-ha/trivet/api"
)

// memberFlagWarnings tell of what operators decided and might have forgotten.
func memberFlagWarnings(h ContactView) []api.Warning {
	var resting, may []string
	v := h.view
	for _, m := range v.Voters() {
		switch {
		case v.MemberFlags(m.ID).Maintenance:
			resting = append(resting, m.Name)
		case h.live(m.ID):
			may = append(may, m.Name)
		}
	}
	if len(resting) == 0 {
		return nil
	}
	list := strings.Join(resting, ", ")
	out := []api.Warning{{Code: "maintenance", Text: "in maintenance, and so never leading nor working: " + list,
		Remedy: "when it is over: 'trivet maintenance off " + resting[0] + "'"}}
	switch len(may) {
	case 0:
		out = append(out, api.Warning{Code: "no_peer_may_lead",
			Text:   "every voter that lives is in maintenance: none of them will lead",
			Remedy: "'trivet maintenance off' on one of them; there it needs no leader"})
	case 1:
		out = append(out, api.Warning{Code: "single_peer_may_lead",
			Text:   "only " + may[0] + " may lead: should it die, no peer leads until maintenance ends",
			Remedy: "'trivet maintenance off', on one of " + list})
	}
	return out
}
