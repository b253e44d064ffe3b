package health

import (
	"fmt"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
)

// formerWarnings name the members before a founding that have not joined again. The
// doors wait for those that the present leader has not heard.
func formerWarnings(v fsm.View) (out []api.Warning) {
	for _, f := range v.FormerMembers() {
		remedy := fmt.Sprintf(
			"'trivet token create' here, then on %s, with its peer stopped, 'trivet join HOST --replace'; if the host is lost for ever, here: 'trivet remove %s'",
			f.Name, f.Name)
		switch {
		case !f.Heard:
			text := fmt.Sprintf(
				"the present leader has not heard %s as stopped since the cluster was founded again: a closed PXE service and a released floating IP stay so until it has",
				f)
			out = append(out, api.Warning{Code: "former_silent", Text: text, Remedy: remedy})
		case f.Became == "":
			text := fmt.Sprintf(
				"%s has not joined again since the cluster was founded again: the next leader has to hear it before PXE opens", f)
			out = append(out, api.Warning{Code: "former_member", Text: text, Remedy: remedy})
		}
	}
	return out
}
