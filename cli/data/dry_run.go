package data

import (
	"strings"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/internal/redact"
)

// shownSecret stands in a dry run where a password, a hash or a key would be written.
const shownSecret = "(secret)"

// showMaking shows the files that init or join would write: those of the configuration, as
// they were settled, and those of the peer.
func showMaking(t *term.Terminal, w settled, dir *datadir.Dir, id datadir.Identity) error {
	edits := w.edits()
	made, err := datadir.Planned(dir, id)
	if err != nil {
		return err
	}
	for _, p := range made {
		edits = append(edits, term.Edit(p))
	}
	return t.ShowEdits(edits)
}

// edits are what write would change, without secrets.
func (w settled) edits() (edits []term.Edit) {
	hide := redact.New(w.conf.Secrets()...)
	hidden := func(text []byte) string {
		return strings.ReplaceAll(hide.Text(string(text)), redact.Redacted, shownSecret)
	}
	if w.plan.users != nil {
		edits = append(edits, term.Edit{Path: w.plan.path, After: hidden(w.plan.users)})
	}
	if w.text != nil {
		e := term.Edit{Path: w.file.path, After: hidden(w.text)}
		if w.file.info != nil {
			e.Before = hidden(w.file.text)
		}
		edits = append(edits, e)
	}
	return edits
}
