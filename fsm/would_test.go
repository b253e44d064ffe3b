package fsm

import (
	"errors"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/fsm/membership"
)

// What a dry run shows is what the entry does: the same refusal, or the same members; and
// the state stays as it is.
func TestDryRunIsWhatTheEntryDoes(t *testing.T) {
	for name, c := range map[string]Command{
		"remove":      membership.RemoveMember{ID: "b", Force: true},
		"refused":     membership.RemoveMember{ID: "b"},
		"unknown":     membership.RemoveMember{ID: "nobody"},
		"maintenance": membership.Exclude{Peer: "b", From: membership.FromLeading, On: true, Force: true},
		"observer":    membership.Exclude{Peer: "b", From: membership.FromVoting, On: true, Force: true},
		"address":     membership.MoveMember{Peer: "b", Address: "b.example:1"},
		"invalid":     membership.MoveMember{Peer: "b"},
	} {
		r := newRig(t)
		r.session("a")
		r.must(membership.PutMember{Member: member("b")})
		before := r.view()
		hash := before.Hash()
		would, _, refused := Would(before, c, r.wall)
		if before.Hash() != hash || r.view().Hash() != hash {
			t.Errorf("dry-run-changes-nothing: %s", name)
		}
		if err := c.Validate(); err != nil {
			if refused == nil {
				t.Errorf("%s: an invalid command would be carried out", name)
			}
			continue
		}
		res := r.do(Header{}, c)
		var why *Error
		if res.Code != OK {
			if !errors.As(refused, &why) || why.Code != res.Code || why.Message != res.Message {
				t.Errorf("dry-run-is-the-entry: %s: refused %v, the entry %v", name, refused, res.Err())
			}
			continue
		}
		_, shown, err := Differences(before, would)
		if err != nil || refused != nil || shown == "" {
			t.Errorf("dry-run-is-the-entry: %s: refused %v, %v, shown %q", name, refused, err, shown)
		}
		_, done, err := Differences(before, r.view())
		if err != nil || shown != done {
			t.Errorf("dry-run-is-the-entry: %s: shown\n%s\ndone\n%s\n%v", name, shown, done, err)
		}
		for _, secret := range []string{"topsecret", "PRIVATE", "pKWlpaW"} {
			if strings.Contains(shown, secret) {
				t.Errorf("a dry run shows %q", secret)
			}
		}
	}
}
