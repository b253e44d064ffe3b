package raftguard

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// slowStore is a stable store whose next write of one term waits.
type slowStore struct {
	*raft.InmemStore
	term    uint64
	release chan struct{} // closed by the test
}

// SetUint64 implements raft.StableStore.
func (s *slowStore) SetUint64(key []byte, n uint64) error {
	if string(key) == keyTerm && n == s.term && s.release != nil {
		<-s.release // in a bubble
	}
	return s.InmemStore.SetUint64(key, n)
}

// deaf is the transport of a voter that reaches no other; the test hands it the
// requests of others.
type deaf struct {
	consumer  chan raft.RPC
	guard     *TermGuard // nil: raft as it is
	heartbeat func(raft.RPC)
}

var errDeaf = errors.New("no network")

func (d *deaf) Consumer() <-chan raft.RPC     { return d.consumer }
func (d *deaf) LocalAddr() raft.ServerAddress { return "a" }
func (d *deaf) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, errDeaf
}
func (d *deaf) AppendEntries(raft.ServerID, raft.ServerAddress, *raft.AppendEntriesRequest,
	*raft.AppendEntriesResponse) error {
	return errDeaf
}
func (d *deaf) RequestVote(raft.ServerID, raft.ServerAddress, *raft.RequestVoteRequest,
	*raft.RequestVoteResponse) error {
	return errDeaf
}
func (d *deaf) RequestPreVote(raft.ServerID, raft.ServerAddress, *raft.RequestPreVoteRequest,
	*raft.RequestPreVoteResponse) error {
	return errDeaf
}
func (d *deaf) InstallSnapshot(raft.ServerID, raft.ServerAddress, *raft.InstallSnapshotRequest,
	*raft.InstallSnapshotResponse, io.Reader) error {
	return errDeaf
}
func (d *deaf) TimeoutNow(raft.ServerID, raft.ServerAddress, *raft.TimeoutNowRequest, *raft.TimeoutNowResponse) error {
	return errDeaf
}
func (d *deaf) EncodePeer(_ raft.ServerID, a raft.ServerAddress) []byte { return []byte(a) }
func (d *deaf) DecodePeer(b []byte) raft.ServerAddress                  { return raft.ServerAddress(b) }

// SetHeartbeatHandler implements raft.Transport.
func (d *deaf) SetHeartbeatHandler(handle func(raft.RPC)) {
	d.heartbeat = handle
	if d.guard != nil {
		d.heartbeat = d.guard.Heartbeats(handle, d.consumer, nil)
	}
}

// voteDuringHeartbeat starts voter a of three, makes it a candidate in term 2, lets
// a heartbeat of the leader of term 2 wait at the stable store, asks for its vote in
// term 3, and lets the heartbeat go on. It returns whether the vote was given, the
// voter's term after it, in memory and on disk, and its answer to another heartbeat
// of term 2.
func voteDuringHeartbeat(t *testing.T, guarded bool) (vote raft.RequestVoteResponse, memory, disk uint64,
	answer raft.AppendEntriesResponse) {
	t.Helper()
	store := &slowStore{InmemStore: raft.NewInmemStore(), term: 2}
	config := raft.DefaultConfig()
	config.LocalID, config.Logger = "a", hclog.NewNullLogger()
	snaps := raft.NewDiscardSnapshotStore()
	net := &deaf{consumer: make(chan raft.RPC)}
	servers := raft.Configuration{
		Servers: []raft.Server{{ID: "a", Address: "a"}, {ID: "b", Address: "b"}, {ID: "c", Address: "c"}}}
	if err := raft.BootstrapCluster(config, store, store, snaps, net, servers); err != nil {
		t.Fatal(err)
	}
	var stable raft.StableStore = store
	if guarded {
		var err error
		if net.guard, err = NewTermGuard(store, func(uint64) {}); err != nil {
			t.Fatal(err)
		}
		stable = net.guard
	}
	r, err := raft.NewRaft(config, nothing{}, store, stable, snaps, net)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Shutdown().Error(); err != nil {
			t.Error(err)
		}
	}()
	header := func(from string) raft.RPCHeader {
		return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(from), Addr: []byte(from)}
	}
	ask := func(hand func(raft.RPC), command any) <-chan raft.RPCResponse {
		answer := make(chan raft.RPCResponse, 1)
		go hand(raft.RPC{Command: command, RespChan: answer})
		return answer
	}
	heartbeat := func() <-chan raft.RPCResponse {
		return ask(net.heartbeat, &raft.AppendEntriesRequest{RPCHeader: header("b"), Term: 2})
	}
	<-heartbeat() // in a bubble
	for r.State() != raft.Candidate {
		time.Sleep(10 * time.Millisecond) // in a bubble
	}
	store.release = make(chan struct{})
	waiting := heartbeat()
	synctest.Wait()
	voting := ask(func(rpc raft.RPC) { net.consumer <- rpc }, &raft.RequestVoteRequest{
		RPCHeader: header("c"), Term: 3, LastLogIndex: 100, LastLogTerm: 2, LeadershipTransfer: true,
	})
	synctest.Wait()
	close(store.release)
	given := <-voting // in a bubble
	<-waiting         // in a bubble
	synctest.Wait()
	vote = *given.Response.(*raft.RequestVoteResponse)
	memory = r.CurrentTerm()
	if disk, err = store.GetUint64([]byte(keyTerm)); err != nil {
		t.Fatal(err)
	}
	last := <-heartbeat() // in a bubble
	return vote, memory, disk, *last.Response.(*raft.AppendEntriesResponse)
}

// TestRaftLowersItsTerm shows the defect of raft that TermGuard is for. When it
// fails after an upgrade of raft, TermGuard may go.
func TestRaftLowersItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vote, memory, disk, answer := voteDuringHeartbeat(t, false)
		if !vote.Granted || vote.Term != 3 || memory != 2 || disk != 2 || !answer.Success {
			t.Errorf("vote %+v, then term %d in memory, %d on disk, and a heartbeat of term 2 is answered with %+v", vote,
				memory, disk, answer)
		}
	})
}

func TestVoterKeepsItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vote, memory, disk, answer := voteDuringHeartbeat(t, true)
		if !vote.Granted || vote.Term != 3 {
			t.Fatalf("the vote was not given: %+v", vote)
		}
		if memory != 3 || disk != 3 || answer.Success || answer.Term != 3 {
			t.Errorf(
				"term-never-falls: after a vote in term 3 it is %d in memory, %d on disk, and a heartbeat of term 2 is answered with %+v",
				memory, disk, answer)
		}
	})
}
