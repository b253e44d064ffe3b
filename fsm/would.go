package fsm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Would returns the state that a command would lead to, were it the next entry, or the
// refusal that the log would give. It proposes nothing: what a dry run shows is judged by
// the rules that judge the entry. wall is the wall clock in Unix ms, for display.
func Would(v View, c Command, wall int64) (View, error) {
	verb, known := verbOf(c)
	if !known {
		return v, &Error{Code: Invalid, Message: fmt.Sprintf("%T is not a command of the log", c)}
	}
	if err := errors.Join(v.Admits(c), c.Validate()); err != nil {
		return v, err
	}
	next := *v.data
	next.shared.Position.Index++
	t := next.txn()
	t.Header.WallMillis = wall
	t.Token, t.Term = next.shared.Granted(), next.shared.Position.Term
	if err := t.execute(verb, c).Err(); err != nil {
		return v, err
	}
	return View{&next}, nil
}

// shownTags are the tags of the tables that a dry run tells of: who is a member, what was
// decided of members, and who may join or operate. They are small, and Dump shows no secret
// of them.
const shownTags = "mjfSXG"

// Told returns these tables as Dump shows them, for a person to compare.
func Told(v View) (string, error) {
	var out strings.Builder
	t := v.data.txn()
	for _, s := range sections {
		if strings.IndexByte(shownTags, s.Tag) < 0 {
			continue
		}
		text, err := json.Marshal(s.Show(t))
		if err != nil {
			return "", fmt.Errorf("show table %s: %w", s.Name, err)
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, text, "", "  "); err != nil {
			return "", fmt.Errorf("show table %s: %w", s.Name, err)
		}
		fmt.Fprintf(&out, "%s: %s\n", s.Name, &indented)
	}
	return out.String(), nil
}
