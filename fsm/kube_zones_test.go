package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/zones"
)

// Zones are chosen once: another choice names the one that it replaces.
func TestZonesAreChosenOnce(t *testing.T) {
	r := three(t)
	shop := func(replaces fencing.Token, in ...string) zones.Choose {
		return zones.Choose{UID: "uid-shop", Namespace: "shop", Tolerance: zones.ToleratesHost, Zones: in, Replaces: replaces}
	}
	lead := func() Header { return Header{Token: r.view().Leadership().Token} }
	r.must(Lead{Peer: "a", Boot: "b"})
	first := r.mustAs(lead(), shop(0, "a")).Token
	if res := r.do(Header{}, shop(first, "b")); res.Code != Refused {
		t.Errorf("somebody chose who does not lead: %v", res.Code)
	}
	old := lead()
	r.must(Lead{Peer: "b", Boot: "b"})
	if res := r.do(old, shop(first, "b")); res.Code != StaleToken {
		t.Errorf("an earlier leader chose: %v", res.Code)
	}
	if res := r.do(lead(), shop(0, "b")); res.Code != Conflict {
		t.Errorf("zones-chosen-anew: a new leader chose what was chosen: %v", res.Code)
	}
	if c, ok := r.view().ZoneChoice("uid-shop"); !ok || !slices.Equal(c.Zones, []string{"a"}) || c.Chosen != first {
		t.Errorf("%+v", c)
	}
	var answered zones.Choice
	if err := r.mustAs(lead(), shop(first, "a", "b")).Decode(&answered); err != nil || len(answered.Zones) != 2 ||
		answered.Chosen == first {
		t.Errorf("%+v %v", answered, err)
	}
	if res := r.do(lead(), zones.Choose{UID: "uid-shop", Namespace: "shop", Replaces: first}); res.Code != Conflict {
		t.Errorf("another choice was forgotten: %v", res.Code)
	}
	var dump bytes.Buffer
	if err := r.view().Dump(&dump); err != nil || !strings.Contains(dump.String(), `"uid-shop"`) {
		t.Errorf("the dump lacks it: %v", err)
	}
	r.mustAs(lead(), zones.Choose{UID: "uid-shop", Namespace: "shop", Replaces: answered.Chosen})
	if all := r.view().ZoneChoices(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	r.older("b", 1)
	if err := r.view().Admits(zones.Choose{}); err == nil || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("admitted beside a peer of version 1: %v", err)
	}
}

func TestChoicesThatAreNone(t *testing.T) {
	many := make([]string, zones.MaxZones+1)
	for i := range many {
		many[i] = fmt.Sprintf("z%03d", i)
	}
	for name, c := range map[string]zones.Choose{
		"without a namespace":         {UID: "u", Tolerance: zones.ToleratesHost, Zones: []string{"a"}},
		"without a UID":               {Namespace: "n", Tolerance: zones.ToleratesHost, Zones: []string{"a"}},
		"without a tolerance":         {UID: "u", Namespace: "n", Zones: []string{"a"}},
		"of a tolerance that is none": {UID: "u", Namespace: "n", Tolerance: 4, Zones: []string{"a"}},
		"of two zones to survive one": {UID: "u", Namespace: "n", Tolerance: zones.ToleratesZone, Zones: []string{"a", "b"}},
		"out of order":                {UID: "u", Namespace: "n", Tolerance: zones.ToleratesHost, Zones: []string{"b", "a"}},
		"a zone twice":                {UID: "u", Namespace: "n", Tolerance: zones.ToleratesHost, Zones: []string{"a", "a"}},
		"a zone without a name":       {UID: "u", Namespace: "n", Tolerance: zones.ToleratesHost, Zones: []string{""}},
		"too many":                    {UID: "u", Namespace: "n", Tolerance: zones.ToleratesHost, Zones: many},
		"nothing, for what":           {UID: "u", Namespace: "n"},
		"nothing, with a tolerance":   {UID: "u", Namespace: "n", Tolerance: zones.ToleratesHost, Replaces: 3},
	} {
		if err := c.Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	all := zones.Choose{UID: "u", Namespace: "n", Tolerance: zones.ToleratesHost, Zones: many[1:]}
	if err := all.Validate(); err != nil {
		t.Error(err)
	}
}

// A snapshot in which too few zones were chosen is refused.
func TestSnapshotOfTooFewZones(t *testing.T) {
	r := busy(t)
	load(t, r.state.now, 'Z',
		zones.Choice{UID: "uid-x", Namespace: "x", Tolerance: zones.ToleratesZone, Zones: []string{"a"}, Chosen: 1})
	var written bytes.Buffer
	if _, err := write(never, r.view(), &written); err != nil {
		t.Fatal(err)
	}
	var damage *SnapshotError
	if _, err := Read(&written); !errors.As(err, &damage) ||
		!strings.Contains(err.Error(), "contradicts itself: zones of namespace x") {
		t.Error(err)
	}
}

// modelZones are the choices, naively, by UID.
type modelZones map[string]zones.Choice

func (m *model) zones(c zones.Choose) Code {
	switch {
	case m.header.Token == 0:
		return Refused
	case m.zoned[c.UID].Chosen != c.Replaces:
		return Conflict
	case len(c.Zones) == 0:
		delete(m.zoned, c.UID)
		return OK
	}
	m.zoned[c.UID] = zones.Choice{UID: c.UID, Namespace: c.Namespace, Tolerance: c.Tolerance, Zones: c.Zones,
		Chosen: m.token()}
	return OK
}

func (m modelZones) all() (all []zones.Choice) {
	for _, uid := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[uid])
	}
	return all
}

func zonesText(all []zones.Choice) string {
	var b strings.Builder
	for _, c := range all {
		fmt.Fprintf(&b, "zones %+v\n", c)
	}
	return b.String()
}

// ofZones draws a choice, mostly of whoever leads and of what it replaces.
func (m *machine) ofZones(t *rapid.T) {
	c := zones.Choose{UID: rapid.SampledFrom([]string{"u1", "u2"}).Draw(t, "uid"), Namespace: "n",
		Tolerance: zones.Tolerance(rapid.IntRange(1, 3).Draw(t, "tolerance"))}
	c.Zones = []string{"a", "b", "c", "d"}[:rapid.IntRange(c.Tolerance.Zones(), 4).Draw(t, "zones")]
	c.Replaces = m.zoned(t, c.UID)
	if !c.Replaces.IsZero() && rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
		c.Zones, c.Tolerance = nil, 0
	}
	m.commit(t, Header{Token: rapid.SampledFrom([]fencing.Token{m.model.lead, m.model.lead, 0}).Draw(t, "duty")}, c)
}

// zoned is the choice of a namespace, or sometimes another.
func (m *machine) zoned(t *rapid.T, uid string) fencing.Token {
	chosen := m.model.zoned[uid].Chosen
	return rapid.SampledFrom([]fencing.Token{chosen, chosen, chosen, 0, 1}).Draw(t, "replaces")
}
