package raftstore

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore/raftguard"
)

// A leadership succeeds leaders of earlier terms alone, under a configuration that is not
// newer than their entry, and with answers to its own term.
func TestWhatALeadershipSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := raftguard.NewLog(raft.NewInmemStore())
		if err := log.StoreLog(&raft.Log{Index: 20, Type: raft.LogConfiguration}); err != nil {
			t.Fatal(err)
		}
		asked := func(term uint64) *raftguard.Ages {
			ages := raftguard.NewAges(t.Context(), term,
				[]raftguard.Question{func(context.Context, uint64) (time.Duration, error) { return time.Second, nil }})
			ages.Ask()
			return ages
		}
		for what, c := range map[string]struct {
			asked, term, index uint64
			ok                 bool
		}{
			"an earlier leader":               {7, 6, 20, true},
			"much earlier and later recorded": {7, 2, 90, true},
			"its own term":                    {7, 7, 90, false},
			"a later term":                    {7, 8, 90, false},
			"the configuration changed":       {7, 6, 19, false},
			"an earlier term was asked for":   {6, 6, 20, false},
		} {
			l := &Leadership{store: &Store{log: log}, term: 7, ages: asked(c.asked)}
			if until, ok := l.Succeeds(c.term, c.index); ok != c.ok || ok && time.Since(until) != time.Second {
				t.Errorf("succeeds-earlier-leaders: %s: %v ago, %v", what, time.Since(until), ok)
			}
		}
	})
}

// toldAge notes which other voters are asked.
type toldAge struct {
	Forwarder
	asked *[]string
}

func (f toldAge) Age(_ context.Context, voter Server, _ uint64) (time.Duration, error) {
	*f.asked = append(*f.asked, voter.ID)
	return 0, nil
}

// Only voters are asked, and count: each proof has a majority of them. This peer asks
// itself only if it is one.
func TestOnlyVotersAreAsked(t *testing.T) {
	for self, want := range map[string][]string{"a": {"b"}, "c": {"a", "b"}} {
		var asked []string
		s := &Store{opts: Options{ID: self, Forward: toldAge{asked: &asked}}}
		s.voter = voter{raftguard.NewGate(func() time.Duration { return 0 })}
		voters := questions(s, []Server{{ID: "a", Voter: true}, {ID: "b", Voter: true}, {ID: "c"}, {ID: "d"}})
		for _, ask := range voters {
			if _, err := ask(t.Context(), 0); err != nil {
				t.Error(err)
			}
		}
		if !slices.Equal(asked, want) || len(voters) != 2 {
			t.Errorf("only-voters-are-asked: %s asks %v, and counts %d voters of two", self, asked, len(voters))
		}
	}
}

// wire is a transport whose incoming requests the test makes.
type wire struct {
	*raft.InmemTransport
	in        chan raft.RPC
	heartbeat func(raft.RPC)
	sent      *raft.AppendEntriesRequest // the last one
}

// AppendEntries implements raft.Transport: each is answered with success.
func (w *wire) AppendEntries(_ raft.ServerID, _ raft.ServerAddress, req *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	w.sent = req
	*resp = raft.AppendEntriesResponse{Term: req.Term, Success: true}
	return nil
}

// Consumer implements raft.Transport.
func (w *wire) Consumer() <-chan raft.RPC { return w.in }

// SetHeartbeatHandler implements raft.Transport.
func (w *wire) SetHeartbeatHandler(handle func(raft.RPC)) { w.heartbeat = handle }

// What this peer acknowledges passes the gate on both ways: heartbeats have one of their own.
func TestBothPathsPassTheGate(t *testing.T) {
	for _, path := range []string{"entries", "heartbeat", "heartbeat by the main loop"} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			gate := raftguard.NewGate(func() time.Duration { return time.Since(began) })
			_, inner := raft.NewInmemTransport("a")
			w := &wire{InmemTransport: inner, in: make(chan raft.RPC)}
			net := newProvingTransport(w, Storage{Log: raft.NewInmemStore(), Snapshots: raft.NewInmemSnapshotStore()}, gate)
			stable, inTerm := raft.NewInmemStore(), uint64(5)
			if path == "heartbeat by the main loop" {
				inTerm = 4
			}
			if err := stable.SetUint64([]byte("CurrentTerm"), inTerm); err != nil {
				t.Fatal(err)
			}
			var err error
			if net.terms, err = raftguard.NewTermGuard(stable, gate.Raise); err != nil {
				t.Fatal(err)
			}
			net.self = raftguard.Follower{Applied: func() uint64 { return 0 }, Term: net.terms.Term,
				Failure: func() (time.Time, error) { return began, nil }}
			answer := func(rpc raft.RPC) { rpc.Respond(&raft.AppendEntriesResponse{Term: 5, Success: true}, nil) }
			net.SetHeartbeatHandler(answer)
			net.done.Go(net.relay)
			go func() { // raft's main loop
				for {
					select {
					case rpc := <-net.Consumer():
						answer(rpc)
					case <-net.stop:
						return
					}
				}
			}()
			time.Sleep(time.Hour)
			answers := make(chan raft.RPCResponse, 1)
			rpc := raft.RPC{Command: &raft.AppendEntriesRequest{Term: 5}, RespChan: answers}
			if path == "entries" {
				w.in <- rpc
			} else {
				w.heartbeat(rpc)
			}
			if a := <-answers; a.Error != nil {
				t.Errorf("%s: %v", path, a.Error)
			}
			gate.Raise(6)
			if age, err := gate.Age(6); age != 0 || err != nil {
				t.Errorf("both-paths: the newest acknowledgement, by %s, is %v old as its answer is there; %v", path, age, err)
			}
			if err := net.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
