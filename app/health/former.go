package health

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
)

// formerWarnings name the members before a founding that have not rejoined. The
// doors wait for those that the present leader has not heard.
func formerWarnings(v fsm.View) (out []api.Warning) {
	for _, f := range v.FormerMembers() {
		remedy := fmt.Sprintf("on %s stop its peer and run 'trivet rejoin'; if the host is lost for ever, here: 'trivet remove %s'", f.Name, f.Name)
		switch {
		case !f.Heard:
			text := fmt.Sprintf("the present leader has not heard %s as stopped since the cluster was founded again: a closed PXE service and a released floating IP stay so until it has", f)
			out = append(out, api.Warning{Code: "former_silent", Text: text, Remedy: remedy})
		case f.Became == "":
			text := fmt.Sprintf("%s has not rejoined since the cluster was founded again: the next leader has to hear it before PXE opens", f)
			out = append(out, api.Warning{Code: "former_member", Text: text, Remedy: remedy})
		}
	}
	return out
}

// FormerCalled returns the former member with this ID or name, nil if there is none.
// Where a member has the name, too, only the ID tells them apart.
func FormerCalled(v fsm.View, peer string) (*fsm.FormerMember, error) {
	var found *fsm.FormerMember
	for _, f := range v.FormerMembers() {
		if f.Became != "" || f.ID != peer && f.Name != peer {
			continue
		}
		named := func(m fsm.Member) bool { return m.Name == peer }
		if f.ID != peer && (found != nil || slices.ContainsFunc(v.Members(), named)) {
			return nil, &api.Error{
				Status: http.StatusConflict, Code: api.CodeConflict, Message: fmt.Sprintf("several hosts are called %s: one of them is former member %s at %s", peer, f.ID, f.Address),
				Hint: "name it by its ID; members have theirs in 'trivet members -o wide'",
			}
		}
		found = &f
	}
	return found, nil
}
