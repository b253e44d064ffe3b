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
	var out warningList
	out.add("maintenance", "when it is over: 'trivet maintenance off "+resting[0]+"'",
		"in maintenance, and so never leading nor working: %s", list)
	switch len(may) {
	case 0:
		out.add("no_peer_may_lead", "'trivet maintenance off' on one of them; there it needs no leader",
			"every voter that lives is in maintenance: none of them will lead")
	case 1:
		out.add("single_peer_may_lead", "'trivet maintenance off', on one of "+list,
			"only %s may lead: should it die, no peer leads until maintenance ends", may[0])
	}
	return out
}
