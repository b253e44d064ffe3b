package fsm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/leases"
)

// leaseModel is a naive model of leases and of what hangs on them: maps, and every
// question asked anew.
type leaseModel struct {
	now    Time
	leases map[string]leases.Lease
	values map[string]leases.Value
	joined map[string]leases.GroupMember // by component/ID
}

func (m *leaseModel) held(name string, token fencing.Token) bool {
	l := m.leases[name]
	return l.Holder != "" && l.Token == token
}

// settle ends what is over by now.
func (m *leaseModel) settle() {
	for name, l := range m.leases {
		if l.Holder != "" && l.Expires <= m.now {
			m.leases[name] = leases.Lease{Name: name, Token: l.Token}
		}
	}
	maps.DeleteFunc(m.joined, func(_ string, g leases.GroupMember) bool { return !m.held(g.Lease, g.Token) })
}

func (m *leaseModel) allows(c leases.Condition, key string) bool {
	return (c.Lease == "" || m.held(c.Lease, c.Token)) && (!c.Compare || m.values[key].Version == c.Version)
}

// step returns whether a step of a holder succeeds.
func (m *leaseModel) step(c leases.Step) bool {
	l := m.leases[c.Name]
	switch {
	case c.Release && l.Holder == "" && c.Token <= l.Token && l.Name != "":
		return true
	case c.Release && l.Token == c.Token && l.Holder == c.Holder:
		l = leases.Lease{Name: c.Name, Token: c.Token}
	case !c.Release && m.held(c.Name, c.Token) && l.Holder == c.Holder:
		l.Expires = m.now.Add(l.TTL)
	default:
		return false
	}
	m.leases[c.Name] = l
	return true
}

// apply returns whether the command succeeds under a token.
func (m *leaseModel) apply(c Command, token fencing.Token) bool {
	m.settle()
	defer m.settle()
	switch c := c.(type) {
	case leases.Grant:
		if l := m.leases[c.Name]; l.Holder != "" && (l.Holder != c.Holder || !c.Takeover) {
			return false
		}
		m.leases[c.Name] = leases.Lease{Name: c.Name, Holder: c.Holder, Token: token, TTL: c.TTL, Expires: m.now.Add(c.TTL)}
	case leases.Steps:
		for _, s := range c.Steps {
			m.step(s)
		}
	case leases.Release:
		if m.leases[c.Name].Token != c.Token {
			return false
		}
		return m.step(leases.Step{Name: c.Name, Holder: c.Holder, Token: c.Token, Release: true})
	case leases.PutValue:
		if !m.allows(c.If, c.Key) {
			return false
		}
		m.values[c.Key] = leases.Value{Key: c.Key, Data: c.Data, Version: token, Lease: c.If.Lease, Token: c.If.Token}
	case leases.DeleteValue:
		if _, ok := m.values[c.Key]; !ok || !m.allows(c.If, c.Key) {
			return false
		}
		delete(m.values, c.Key)
	case leases.JoinGroup:
		at := c.Component + "/" + c.ID
		if old, ok := m.joined[at]; !m.held(c.Lease, c.Token) || ok && old.Lease != c.Lease {
			return false
		}
		m.joined[at] = leases.GroupMember(c)
	case leases.LeaveGroup:
		at := c.Component + "/" + c.ID
		if old, ok := m.joined[at]; ok && (old.Lease != c.Lease || old.Token != c.Token) {
			return false
		}
		delete(m.joined, at)
	}
	return true
}

func (m *leaseModel) text() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.leases)) {
		l := m.leases[name]
		fmt.Fprintf(&b, "lease %s %s %v %v\n", name, l.Holder, l.Token, l.Expires)
	}
	for _, key := range slices.Sorted(maps.Keys(m.values)) {
		fmt.Fprintf(&b, "value %+v\n", m.values[key])
	}
	for _, at := range slices.Sorted(maps.Keys(m.joined)) {
		fmt.Fprintf(&b, "member %+v\n", m.joined[at])
	}
	return b.String()
}

func leasesText(v View) string {
	var b strings.Builder
	for _, l := range v.Leases() {
		fmt.Fprintf(&b, "lease %s %s %v %v\n", l.Name, l.Holder, l.Token, l.Expires)
	}
	for value := range v.Values("") {
		fmt.Fprintf(&b, "value %+v\n", value)
	}
	for _, component := range []string{"db", "web"} {
		for _, g := range v.Group(component) {
			fmt.Fprintf(&b, "member %+v\n", g)
		}
	}
	return b.String()
}

// leaseDraws draws commands that mostly find something to do.
type leaseDraws struct {
	t      *rapid.T
	model  *leaseModel
	latest fencing.Token
}

func (d leaseDraws) one(of ...string) string { return rapid.SampledFrom(of).Draw(d.t, "name") }

func (d leaseDraws) token(of fencing.Token) fencing.Token {
	anything := fencing.Token(rapid.Uint64Range(1, uint64(d.latest)+1).Draw(d.t, "anything"))
	return rapid.SampledFrom([]fencing.Token{max(of, 1), max(of, 1), anything}).Draw(d.t, "token")
}

func (d leaseDraws) step() leases.Step {
	name := d.one("a", "b")
	return leases.Step{Name: name, Holder: d.one("one", "two"), Token: d.token(d.model.leases[name].Token),
		Release: rapid.Bool().Draw(d.t, "release")}
}

func (d leaseDraws) condition(key string) (c leases.Condition) {
	how := rapid.IntRange(0, 2).Draw(d.t, "condition")
	if how != 1 {
		c.Lease = d.one("a", "b")
		c.Token = d.token(d.model.leases[c.Lease].Token)
	}
	if how != 0 {
		c.Compare, c.Version = true, d.model.values[key].Version
		if rapid.IntRange(0, 3).Draw(d.t, "old") == 0 {
			c.Version = d.token(c.Version)
		}
	}
	return c
}

func (d leaseDraws) command() Command {
	lease, key := d.one("a", "b"), d.one("k", "k:2")
	token := d.token(d.model.leases[lease].Token)
	switch rapid.IntRange(0, 9).Draw(d.t, "verb") {
	case 0, 1:
		return leases.Grant{Name: lease, Holder: d.one("one", "two"), TTL: 5 * time.Second,
			Takeover: rapid.Bool().Draw(d.t, "takeover")}
	case 2:
		return leases.Release{Name: lease, Holder: d.one("one", "two"), Token: token}
	case 3, 4:
		return leases.Steps{Steps: []leases.Step{d.step(), d.step()}}
	case 5, 6:
		return leases.PutValue{Key: key, Data: []byte(d.one("x", "y")), If: d.condition(key)}
	case 7:
		return leases.DeleteValue{Key: key, If: d.condition(key)}
	case 8:
		return leases.LeaveGroup{Component: d.one("web", "db"), ID: d.one("i", "j"), Lease: lease, Token: token}
	}
	return leases.JoinGroup{Component: d.one("web", "db"), ID: d.one("i", "j"), Lease: lease, Token: token,
		Metadata: d.one("m", "n")}
}

// TestLeaseProperty compares leases, values and groups with the naive model, entry
// by entry, through expiry and snapshots.
func TestLeaseProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t)
		model := &leaseModel{leases: map[string]leases.Lease{}, values: map[string]leases.Value{},
			joined: map[string]leases.GroupMember{}}
		for range rapid.IntRange(1, 60).Draw(rt, "entries") {
			r.pass(rapid.SampledFrom([]time.Duration{0, 0, time.Second, 3 * time.Second}).Draw(rt, "pass"))
			model.now = r.now
			c := leaseDraws{rt, model, fencing.Token(r.index)}.command()
			res := r.do(Header{}, c)
			if want := model.apply(c, fencing.Token(r.index)); (res.Code == OK) != want {
				rt.Fatalf("entry %d, %+v: %v (%s), want success: %v", r.index, c, res.Code, res.Message, want)
			}
			if got, want := leasesText(r.view()), model.text(); got != want {
				rt.Fatalf("entry %d, %+v:\nstate\n%s\nmodel\n%s", r.index, c, got, want)
			}
		}
	})
}
