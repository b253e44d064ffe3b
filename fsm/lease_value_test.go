package fsm

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/leases"
)

func put(key, data string, c leases.Condition) leases.PutValue {
	return leases.PutValue{Key: key, Data: []byte(data), If: c}
}

func stored(t *testing.T, res Result) leases.Value {
	t.Helper()
	var v leases.Value
	if err := res.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestValueIsWrittenUnderALeaseThatIsHeld(t *testing.T) {
	r := newRig(t)
	first := grant(t, r.must(leases.Grant{Name: "db", Holder: "one", TTL: 10 * time.Second})).Token
	under := leases.Condition{Lease: "db", Token: first}
	v := stored(t, r.must(put("disk", "a", under)))
	if v.Version != fencing.Token(r.index) || v.Token != first || v.Data != nil {
		t.Errorf("stored %+v", v)
	}
	again := stored(t, r.must(put("disk", "b", under)))
	if again.Version <= v.Version {
		t.Errorf("version %v follows %v", again.Version, v.Version)
	}
	r.refused(Fenced, Header{}, put("disk", "c", leases.Condition{Lease: "db", Token: first + 1000}))
	r.refused(Fenced, Header{}, put("disk", "c", leases.Condition{Lease: "other", Token: first}))
	second := grant(t, r.must(leases.Grant{Name: "db", Holder: "one", TTL: 10 * time.Second, Takeover: true})).Token
	r.refused(Fenced, Header{}, put("disk", "c", under))
	r.refused(Fenced, Header{}, leases.DeleteValue{Key: "disk", If: under})
	r.pass(10 * time.Second)
	r.refused(Fenced, Header{}, put("disk", "c", leases.Condition{Lease: "db", Token: second}))
	if v, ok := r.view().Value("disk"); !ok || string(v.Data) != "b" || v.Version != again.Version {
		t.Errorf("kept %+v, %v", v, ok)
	}
}

func TestValueIsComparedWithItsVersion(t *testing.T) {
	r := newRig(t)
	absent := leases.Condition{Compare: true}
	v := stored(t, r.must(put("k", "a", absent)))
	r.refused(Fenced, Header{}, put("k", "b", absent))
	r.refused(Fenced, Header{}, put("none", "b", leases.Condition{Compare: true, Version: v.Version}))
	next := stored(t, r.must(put("k", "b", leases.Condition{Compare: true, Version: v.Version})))
	r.refused(Fenced, Header{}, put("k", "c", leases.Condition{Compare: true, Version: v.Version}))
	r.refused(Fenced, Header{}, leases.DeleteValue{Key: "k", If: leases.Condition{Compare: true, Version: v.Version}})
	r.must(leases.DeleteValue{Key: "k", If: leases.Condition{Compare: true, Version: next.Version}})
	lease := grant(t, r.must(leases.Grant{Name: "l", Holder: "h", TTL: time.Minute})).Token
	r.refused(NotFound, Header{}, leases.DeleteValue{Key: "k", If: leases.Condition{Lease: "l", Token: lease}})
	if last := stored(t, r.must(put("k", "d", absent))); last.Version <= next.Version {
		t.Errorf("version %v follows %v over a deletion", last.Version, next.Version)
	}
}

func TestValuesAreBounded(t *testing.T) {
	r := newRig(t)
	absent := leases.Condition{Compare: true}
	full := bytes.Repeat([]byte{'x'}, leases.MaxValue)
	for n := range leases.MaxValueBytes / leases.MaxValue {
		r.do(Header{}, leases.PutValue{Key: fmt.Sprint("k", n), Data: full, If: absent})
	}
	r.refused(TableFull, Header{}, put("one-more", "x", absent))
	first, _ := r.view().Value("k0")
	r.must(put("k0", "short", leases.Condition{Compare: true, Version: first.Version}))
	r.must(put("one-more", "x", absent))
}

func TestValueCommandsAreChecked(t *testing.T) {
	ok := leases.Condition{Compare: true}
	for name, c := range map[string]Command{
		"no condition":           put("k", "x", leases.Condition{}),
		"token without lease":    put("k", "x", leases.Condition{Token: 3, Compare: true}),
		"lease without token":    put("k", "x", leases.Condition{Lease: "l"}),
		"version not compared":   put("k", "x", leases.Condition{Lease: "l", Token: 1, Version: 4}),
		"lease that is no name":  put("k", "x", leases.Condition{Lease: "L", Token: 1}),
		"empty key":              put("", "x", ok),
		"key with a slash":       put("a/b", "x", ok),
		"key with a space":       put("a b", "x", ok),
		"long key":               put(string(bytes.Repeat([]byte{'k'}, 513)), "x", ok),
		"long value":             leases.PutValue{Key: "k", Data: make([]byte, leases.MaxValue+1), If: ok},
		"deletion of no key":     leases.DeleteValue{If: ok},
		"deletion unconditional": leases.DeleteValue{Key: "k"},
		"no step":                leases.Steps{},
		"too many steps":         leases.Steps{Steps: make([]leases.Step, leases.MaxSteps+1)},
		"step of no name":        leases.Steps{Steps: []leases.Step{{Holder: "h"}}},
		"member of no component": leases.JoinGroup{ID: "a", Lease: "l", Token: 1},
		"member without an ID":   leases.JoinGroup{Component: "c", Lease: "l", Token: 1},
		"member without a lease": leases.JoinGroup{Component: "c", ID: "a"},
		"member with long text": leases.JoinGroup{Component: "c", ID: "a", Lease: "l",
			Metadata: string(make([]byte, 4097))},
		"departure of no member":  leases.LeaveGroup{Component: "c", Lease: "l"},
		"departure without lease": leases.LeaveGroup{Component: "c", ID: "a"},
	} {
		if err := c.Validate(); err == nil {
			t.Errorf("%s: nothing is wrong with %+v", name, c)
		}
	}
}
