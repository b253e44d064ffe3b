package memlog

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// FoundedAgain is the state of a cluster of h1 to h3 that was founded again on h1. Its
// leader has heard h2, and a new host has joined under the name of h3.
func FoundedAgain(t testing.TB) fsm.View {
	t.Helper()
	at := func(id, name string) membership.Member {
		return membership.Member{ID: id, Name: name, Address: id + ".example:7350", Version: fsm.Version}
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
	apply(fsm.Header{}, membership.PutMember{Member: at("b", "h2")})
	apply(fsm.Header{}, membership.PutMember{Member: at("c", "h3")})
	if err := state.Refound(fsm.Refound{Index: index, NewIncarnation: true, Survivor: "a",
		Former: state.View().MayRun("a")}); err != nil {
		t.Fatal(err)
	}
	index++
	token := apply(fsm.Header{}, fsm.Lead{Peer: "a", Boot: "x", Version: fsm.Version}).Token
	apply(fsm.Header{Token: token}, membership.FormerHeard{ID: "b"})
	apply(fsm.Header{}, membership.PutMember{Member: at("d", "h3")})
	return state.View()
}
