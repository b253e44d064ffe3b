package fsm

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/operators"
)

// modelKeys is the rotation of the gossip key, and operators, naively.
type modelKeys struct {
	stage     string
	keys      []byte // one byte of each key that is accepted; the first is spoken under
	next      byte
	changed   fencing.Token
	since     Time
	have      map[string]bool
	operators map[string]*operators.Operator
}

func newModelKeys() modelKeys {
	return modelKeys{stage: "settled", keys: []byte{founding().GossipKey[0]}, have: map[string]bool{},
		operators: map[string]*operators.Operator{}}
}

func (m *model) rotates(c Command) Code {
	k := &m.keys
	switch c := c.(type) {
	case membership.RotateGossipKey:
		if k.stage != "settled" || c.Key[0] == k.keys[0] {
			return Conflict
		}
		k.stage, k.keys, k.next = "adding", []byte{k.keys[0], c.Key[0]}, c.Key[0]
	case membership.ConfirmGossipKeys:
		switch {
		case m.members[c.Peer] == 0:
			return NotFound
		case k.stage == "settled" || c.Changed != k.changed:
			return Conflict
		}
		k.have[c.Peer] = true
		return OK
	case membership.AdvanceGossipKeys:
		switch {
		case m.header.Token == 0:
			return Refused
		case k.stage == "settled" || c.Changed != k.changed:
			return Conflict
		}
		for id := range m.members {
			if m.lives(id) && !k.have[id] && m.now < k.since+Time(membership.GossipStepTimeout) {
				return Refused
			}
		}
		switch k.stage {
		case "adding":
			k.stage, k.keys = "using", []byte{k.next, k.keys[0]}
		case "using":
			k.stage, k.keys = "dropping", []byte{k.next}
		case "dropping":
			k.stage, k.since, k.have = "settled", m.now, map[string]bool{}
			return OK
		}
	}
	k.changed, k.since, k.have = m.token(), m.now, map[string]bool{}
	return OK
}

func (m *model) operates(c Command) Code {
	of := func(name string) *operators.Operator {
		if m.keys.operators[name] == nil {
			m.keys.operators[name] = &operators.Operator{Name: name}
		}
		return m.keys.operators[name]
	}
	switch c := c.(type) {
	case operators.NoteOperator:
		if o := m.keys.operators[c.Name]; o != nil && c.Issued <= o.Revoked {
			return Conflict
		}
		o := of(c.Name)
		o.Issued, o.Ends = max(o.Issued, c.Issued), max(o.Ends, c.Ends)
	case operators.RevokeOperator:
		o := of(c.Name)
		o.Revoked, o.Ends = max(o.Revoked, c.UpTo, o.Issued), max(o.Ends, c.Ends)
	}
	return OK
}

func (m *model) keysText() string {
	k := m.keys
	var have []string
	for id := range k.have {
		if m.members[id] != 0 {
			have = append(have, id)
		}
	}
	slices.Sort(have)
	var all []operators.Operator
	for _, name := range slices.Sorted(maps.Keys(k.operators)) {
		all = append(all, *k.operators[name])
	}
	return keysText(k.stage, k.keys, k.changed, k.since, have, all)
}

func viewKeysText(v View) string {
	g := v.GossipRotation()
	var keys []byte
	for _, key := range v.GossipKeys() {
		keys = append(keys, key[0])
	}
	var have []string // who was removed since has no say
	for _, id := range g.Confirmed {
		if _, member := v.Member(id); member {
			have = append(have, id)
		}
	}
	return keysText(g.Stage.String(), keys, g.Changed, g.Since, have, v.Operators())
}

func keysText(stage string, keys []byte, changed fencing.Token, since Time, have []string,
	all []operators.Operator) string {
	var b strings.Builder
	fmt.Fprintf(&b, "gossip %s %x by %v at %v, confirmed by %v\n", stage, keys, changed, since, have)
	for _, o := range all {
		fmt.Fprintf(&b, "operator %+v\n", o)
	}
	return b.String()
}

// ofKeys draws a step of a rotation, mostly the right one, or an operator's
// certificate.
func (m *machine) ofKeys(t *rapid.T) {
	changed := m.anyToken(t, []fencing.Token{max(m.model.keys.changed, 1), max(m.model.keys.changed, 1)})
	key := rapid.SampledFrom([]byte{1, 2, founding().GossipKey[0]}).Draw(t, "key")
	name := rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "operator")
	at := rapid.Int64Range(1, 9).Draw(t, "second")
	switch rapid.IntRange(0, 7).Draw(t, "act") {
	case 0, 1:
		m.commit(t, Header{}, membership.RotateGossipKey{Key: bytes.Repeat([]byte{key}, membership.GossipKeySize)})
	case 2, 3:
		m.commit(t, Header{}, membership.ConfirmGossipKeys{Peer: peer(t), Changed: changed})
	case 4, 5:
		m.commit(t, Header{Token: m.model.lead}, membership.AdvanceGossipKeys{Changed: changed})
	case 6:
		m.commit(t, Header{}, operators.NoteOperator{Name: name, Issued: at, Ends: at + 5})
	default:
		m.commit(t, Header{}, operators.RevokeOperator{Name: name, UpTo: at, Ends: at + 5})
	}
}
