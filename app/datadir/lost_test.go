package datadir

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// A member and a former member may have one name. --lost NAME then names neither, since
// the other one may run: the refusal and what it suggests tell them apart by ID.
func TestLostNamesOneHost(t *testing.T) {
	at := func(id, name, address string) membership.FormerMember {
		return membership.FormerMember{ID: id, Name: name, Address: address}
	}
	old, dead := at("id-old", "h2", "192.0.2.2:7350"), at("id-new", "h2", "192.0.2.22:7350")
	h3 := at("id-h3", "h3", "192.0.2.3:7350")
	odd := at("x", "id-h3", "192.0.2.9:7350")
	type peers = []membership.FormerMember
	again := at("id-again", "h3", h3.Address) // of another history, on the same host
	for name, c := range map[string]struct {
		others peers
		names  []string
		lost   []string // IDs; nil: it is refused
		said   []string
	}{
		"a name of two hosts": {peers{old, dead, h3}, []string{"h2"}, nil,
			[]string{"--lost h2: several hosts", "192.0.2.2:7350), ID id-old", "192.0.2.22:7350), ID id-new"}},
		"by ID":                     {peers{old, dead}, []string{"id-new"}, []string{"id-new"}, nil},
		"both by ID":                {peers{old, dead}, []string{"id-new", "id-old"}, []string{"id-old", "id-new"}, nil},
		"two peers of one host":     {peers{h3, again, old}, []string{"h3"}, []string{"id-h3", "id-again"}, nil},
		"an ID that is also a name": {peers{odd, h3}, []string{"id-h3"}, []string{"id-h3"}, nil},
	} {
		r := &Refounding{Verb: VerbRestore, state: fsm.New(), Others: c.others}
		stopped := make([]string, len(c.others))
		for i, m := range c.others {
			stopped[i] = m.ID
		}
		err := r.Judge(answers(c.others, stopped...), c.names)
		var ids []string
		for _, m := range r.Lost {
			ids = append(ids, m.ID)
		}
		var refused *PresenceError
		if c.lost != nil && (err != nil || !slices.Equal(ids, c.lost)) {
			t.Errorf("lost-names-one: %s: %v, lost %v, want %v", name, err, ids, c.lost)
		}
		if c.lost == nil && (!errors.As(err, &refused) || r.judged) {
			t.Errorf("lost-names-one: %s: %v, lost %v", name, err, ids)
		}
		for _, want := range c.said {
			if refused != nil && !strings.Contains(refused.Message+" "+refused.Remedy, want) {
				t.Errorf("lost-names-one: %s: %s; %s does not say %q", name, refused.Message, refused.Remedy, want)
			}
		}
	}
	r := &Refounding{Verb: VerbRestore, state: fsm.New(), Others: []membership.FormerMember{old, dead, h3}}
	var refused *PresenceError
	if err := r.Judge(answers(r.Others), nil); !errors.As(err, &refused) ||
		!strings.HasSuffix(refused.Remedy, "--lost h3,id-new,id-old") {
		t.Errorf("lost-names-one: the refusal suggests what would be refused: %+v", refused)
	}
}
