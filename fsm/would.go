package fsm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/trivet-ha/trivet/fsm/entry"
)

// Would returns the state that a command would lead to, were it the next entry, and its
// result, or the refusal that the log would give. It proposes nothing: what a dry run shows
// is judged by the rules that judge the entry. wall is the wall clock in Unix ms, for display.
func Would(v View, c Command, wall int64) (View, Result, error) {
	verb, known := verbOf(c)
	if !known {
		return v, Result{}, &Error{Code: Invalid, Message: fmt.Sprintf("%T is not a command of the log", c)}
	}
	if err := errors.Join(v.Admits(c), c.Validate()); err != nil {
		return v, Result{}, err
	}
	next := *v.data
	next.shared.Position.Index++
	t := next.txn()
	t.Header.WallMillis = wall
	t.Token, t.Term = next.shared.Granted(), next.shared.Position.Term
	res := t.execute(verb, c)
	if err := res.Err(); err != nil {
		return v, res, err
	}
	return View{&next}, res, nil
}

// shownTags are the tags of the tables that a dry run tells of: who is a member, what was
// decided of members, who may join or operate, and what operators noted or held back. They
// are bounded, and Dump shows no secret of them.
const shownTags = "mjfSXGOkpR"

// Differences returns those of these tables that differ between two states, as Dump shows
// them, for a person to compare.
func Differences(a, b View) (before, after string, err error) {
	for _, s := range sections {
		if strings.IndexByte(shownTags, s.Tag) < 0 {
			continue
		}
		was, err := shownTable(s, a)
		if err != nil {
			return "", "", err
		}
		is, err := shownTable(s, b)
		if err != nil {
			return "", "", err
		}
		if was != is {
			before, after = before+was, after+is
		}
	}
	return before, after, nil
}

func shownTable(s entry.Section[*txn], v View) (string, error) {
	text, err := json.Marshal(s.Show(v.data.txn()))
	if err != nil {
		return "", fmt.Errorf("show table %s: %w", s.Name, err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return "", fmt.Errorf("show table %s: %w", s.Name, err)
	}
	return fmt.Sprintf("%s: %s\n", s.Name, &out), nil
}
