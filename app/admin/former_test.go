package admin

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
)

// foundedAnew is a cluster of h1 to h3 that was founded again on h1; h2 was heard. A
// new host has joined under the name of h3.
func foundedAnew(t *testing.T) fsm.View {
	t.Helper()
	at := func(id, name string) fsm.Member {
		return fsm.Member{ID: id, Name: name, Address: id + ".example:7350", Version: fsm.Version}
	}
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "5f0c1f3e-0000-4000-8000-000000000001", CACert: []byte("-----BEGIN CERTIFICATE-----"),
		CAKey: []byte("-----BEGIN PRIVATE KEY-----"), GossipKey: make([]byte, 32), Member: at("a", "h1"),
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	index := uint64(2)
	apply := func(h fsm.Header, c fsm.Command) fsm.Result {
		t.Helper()
		data, err := fsm.Encode(h, c)
		if err != nil {
			t.Fatal(err)
		}
		res := state.Apply(fsm.Entry{Index: index, Term: 2, Data: data})
		if res.Err() != nil {
			t.Fatal(res.Err())
		}
		index++
		return res
	}
	apply(fsm.Header{}, fsm.PutMember{Member: at("b", "h2")})
	apply(fsm.Header{}, fsm.PutMember{Member: at("c", "h3")})
	if err := state.Refound(fsm.Refound{Index: index, NewIncarnation: true, Survivor: "a", Former: state.View().MayRun("a")}); err != nil {
		t.Fatal(err)
	}
	index++
	token := apply(fsm.Header{}, fsm.Lead{Peer: "a", Boot: "x", Version: fsm.Version}).Token
	apply(fsm.Header{Token: token}, fsm.FormerHeard{ID: "b"})
	apply(fsm.Header{}, fsm.PutMember{Member: at("d", "h3")})
	return state.View()
}

// A former member is removed by its name, or by its ID where a member has the name.
func TestFormerMemberIsCalled(t *testing.T) {
	v := foundedAnew(t)
	for name, want := range map[string]string{"h2": "b", "b": "b", "c": "c", "h1": "", "d": "", "h9": ""} {
		f, err := formerCalled(v, name)
		if err != nil || (f == nil) != (want == "") || f != nil && f.ID != want {
			t.Errorf("%s: %v, %v; want %q", name, f, err, want)
		}
	}
	var refused *api.Error
	if f, err := formerCalled(v, "h3"); !errors.As(err, &refused) || refused.Code != api.CodeConflict || !strings.Contains(fmt.Sprint(err), "former member c at") {
		t.Errorf("h3: %v, %v", f, err)
	}
}
