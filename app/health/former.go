package health

import (
	"fmt"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
)

// formerWarnings name the members before a founding that have not joined again. The
// doors wait for those that the present leader has not heard.
func formerWarnings(v fsm.View) []api.Warning {
	var out warningList
	for _, f := range v.FormerMembers() {
		remedy := fmt.Sprintf(
			"'trivet token create' here, then on %s, with its peer stopped, 'trivet join HOST --replace'; if the host is lost for ever, here: 'trivet remove %s'",
			f.Name, f.Name)
		switch {
		case !f.Heard:
			out.add("former_silent", remedy,
				"the present leader has not heard %s as stopped since the cluster was founded again: a closed PXE service and a released floating IP stay so until it has",
				f)
		case f.Became == "":
			out.add("former_member", remedy,
				"%s has not joined again since the cluster was founded again: the next leader has to hear it before PXE opens", f)
		}
	}
	return out
}
