package health

import (
	"fmt"

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
