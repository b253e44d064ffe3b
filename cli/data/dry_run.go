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
func showMaking(t *term.Terminal, f *draft, w settled, s *settlement, dir *datadir.Dir, id datadir.Identity) error {
	edits := w.edits(f, s)
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
func (w settled) edits(f *draft, s *settlement) (edits []term.Edit) {
	hide := redact.New(w.conf.Secrets()...)
	hidden := func(text []byte) string {
		return strings.ReplaceAll(hide.Text(string(text)), redact.Redacted, shownSecret)
	}
	if s.users != nil {
		edits = append(edits, term.Edit{Path: s.path, After: hidden(s.users)})
	}
	if w.text != nil {
		e := term.Edit{Path: f.path, After: hidden(w.text)}
		if f.info != nil {
			e.Before = hidden(f.text)
		}
		edits = append(edits, e)
	}
	return edits
}
