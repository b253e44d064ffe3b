package simtest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// pair is two ports without raft behind them.
type pair struct {
	net          *Network
	gateA, gateB *Gate
	a, b         *Transport
}

func newPair() *pair {
	p := &pair{net: NewNetwork(NewRand(1)), gateA: NewGate(), gateB: NewGate()}
	p.net.SetDelay(time.Millisecond, time.Millisecond)
	p.a, p.b = p.net.Endpoint("a", "a:1", p.gateA), p.net.Endpoint("b", "b:1", p.gateB)
	return p
}

func (p *pair) close() { p.a.sever(); p.b.sever() }

// vote asks b for its vote in a term and sends the error to the channel.
func (p *pair) vote(term uint64) (<-chan error, *raft.RequestVoteResponse) {
	resp, done := new(raft.RequestVoteResponse), make(chan error, 1)
	go func() {
		done <- p.a.RequestVote("b", "b:1", &raft.RequestVoteRequest{Term: term}, resp)
	}()
	return done, resp
}

// grant answers the next vote request that b gets and returns its term.
func (p *pair) grant() uint64 {
	rpc := <-p.b.Consumer()
	req := rpc.Command.(*raft.RequestVoteRequest)
	rpc.Respond(&raft.RequestVoteResponse{Term: req.Term, Granted: true}, nil)
	return req.Term
}

func TestPausedPeerGetsHeldRequestsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		defer p.close()
		p.gateB.Pause()
		var replies []<-chan error
		for term := range uint64(5) {
			done, _ := p.vote(term)
			replies = append(replies, done)
			time.Sleep(time.Second)
		}
		select {
		case <-p.b.Consumer():
			t.Fatal("a stopped process got a request")
		default:
		}
		p.gateB.Resume()
		synctest.Wait()
		for term := range uint64(5) {
			if got := p.grant(); got != term {
				t.Errorf("request %d came as number %d", got, term)
			}
		}
		for _, done := range replies {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestPausedPeerGetsHeldReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		defer p.close()
		done, resp := p.vote(7)
		time.Sleep(500 * time.Microsecond)
		p.gateA.Pause() // the request is under way
		p.grant()
		time.Sleep(5 * time.Second)
		if len(done) != 0 {
			t.Fatal("a stopped process got an answer")
		}
		p.gateA.Resume()
		if err := <-done; err != nil || !resp.Granted || resp.Term != 7 {
			t.Errorf("held answer: %+v, %v", resp, err)
		}
	})
}

func TestStoppedProcessSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		defer p.close()
		p.gateA.Pause()
		done, _ := p.vote(1)
		time.Sleep(time.Minute)
		select {
		case <-p.b.Consumer():
			t.Fatal("a stopped process sent a request")
		default:
		}
		p.gateA.Resume()
		p.grant()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestCutHoldsUntilMendedOrTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		defer p.close()
		p.net.Cut("a", "b")
		start := time.Now()
		done, _ := p.vote(1)
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != rpcTimeout {
			t.Errorf("over a cut link: %v after %v", err, time.Since(start))
		}
		done, _ = p.vote(2)
		time.Sleep(time.Second)
		p.net.HealAll()
		if got := p.grant(); got != 2 {
			t.Errorf("request %d arrived, not 2", got)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		p.net.IsolateInbound("a") // the answer is held, the request was not
		done, _ = p.vote(3)
		p.grant()
		time.Sleep(time.Second)
		if len(done) != 0 {
			t.Fatal("an answer crossed a cut link")
		}
		p.net.Heal("a")
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestCutIsOneWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		defer p.close()
		p.net.Cut("b", "a")
		done, _ := p.vote(1)
		p.grant() // the request came through
		time.Sleep(time.Second)
		if len(done) != 0 {
			t.Error("an answer crossed a cut link")
		}
		p.net.Mend("b", "a")
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestDeadPeerRefusesAndBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		defer p.close()
		done, _ := p.vote(1)
		<-p.b.Consumer() // never answered
		p.b.sever()
		if err := <-done; !errors.Is(err, ErrReset) {
			t.Errorf("peer died with the request: %v", err)
		}
		done, _ = p.vote(2)
		if err := <-done; !errors.Is(err, ErrRefused) {
			t.Errorf("peer was dead: %v", err)
		}
		p.b = p.net.Endpoint("b", "b:1", p.gateB)
		done, _ = p.vote(3)
		p.grant()
		if err := <-done; err != nil {
			t.Errorf("peer came back: %v", err)
		}
		p.a.sever()
		done, _ = p.vote(4)
		if err := <-done; !errors.Is(err, raft.ErrTransportShutdown) {
			t.Errorf("own port closed: %v", err)
		}
	})
}

func TestRemoteErrorIsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		defer p.close()
		done, _ := p.vote(1)
		rpc := <-p.b.Consumer()
		rpc.Respond(&raft.RequestVoteResponse{}, io.ErrUnexpectedEOF)
		if err := <-done; errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "unexpected EOF") {
			t.Errorf("error from the other side: %v", err)
		}
	})
}

// A heartbeat reaches its handler while raft's main loop takes no requests.
func TestHeartbeatsPassABusyPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		defer p.close()
		p.b.SetHeartbeatHandler(func(rpc raft.RPC) {
			rpc.Respond(&raft.AppendEntriesResponse{Term: 3, Success: true}, nil)
		})
		busy, _ := p.vote(1) // nobody consumes it
		beat := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{Addr: []byte("a:1")}, Term: 3}
		var resp raft.AppendEntriesResponse
		if err := p.a.AppendEntries("b", "b:1", beat, &resp); err != nil || !resp.Success {
			t.Errorf("heartbeat: %+v, %v", resp, err)
		}
		beat.LeaderCommitIndex = 1 // this makes it an ordinary request
		go func() {
			p.grant()
			rpc := <-p.b.Consumer()
			rpc.Respond(&raft.AppendEntriesResponse{Term: 4}, nil)
		}()
		if err := p.a.AppendEntries("b", "b:1", beat, &resp); err != nil || resp.Term != 4 {
			t.Errorf("ordinary request: %+v, %v", resp, err)
		}
		if err := <-busy; err != nil {
			t.Error(err)
		}
	})
}

func TestEntriesAreCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		defer p.close()
		p.net.SetDuplicate(1)
		entry := &raft.Log{Index: 1, Data: []byte("data"), Extensions: []byte("ext"), AppendedAt: time.Now()}
		go func() {
			req := &raft.AppendEntriesRequest{Term: 1, Entries: []*raft.Log{entry}}
			_ = p.a.AppendEntries("b", "b:1", req, new(raft.AppendEntriesResponse)) // never answered
		}()
		for range 2 { // the request and its twin
			got := (<-p.b.Consumer()).Command.(*raft.AppendEntriesRequest).Entries[0]
			if string(got.Data) != "data" || string(got.Extensions) != "ext" || !got.AppendedAt.Equal(entry.AppendedAt) {
				t.Errorf("entry arrived as %+v", got)
			}
			clear(got.Data)
			clear(got.Extensions)
		}
		if string(entry.Data) != "data" {
			t.Error("the receiver wrote into the sender's memory")
		}
	})
}

func TestLostMessagesBreakTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		defer p.close()
		p.net.SetLink("a", "b", Quality{Drop: 1})
		done, _ := p.vote(1)
		if err := <-done; !errors.Is(err, ErrReset) {
			t.Errorf("lost request: %v", err)
		}
		p.net.SetLink("a", "b", Quality{})
		p.net.SetLink("b", "a", Quality{Drop: 1})
		done, _ = p.vote(2)
		if got := p.grant(); got != 2 {
			t.Errorf("request %d was executed, not 2", got)
		}
		if err := <-done; !errors.Is(err, ErrReset) {
			t.Errorf("lost answer: %v", err)
		}
	})
}

func TestLostSnapshotArrivesInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		defer p.close()
		p.net.SetDrop(1)
		done := make(chan error, 1)
		go func() {
			req := &raft.InstallSnapshotRequest{Size: 1000}
			done <- p.a.InstallSnapshot("b", "b:1", req, new(raft.InstallSnapshotResponse),
				strings.NewReader(strings.Repeat("x", 1000)))
		}()
		rpc := <-p.b.Consumer()
		if data, err := io.ReadAll(rpc.Reader); len(data) >= 1000 || err != nil {
			t.Errorf("%d bytes arrived, %v", len(data), err)
		}
		if err := <-done; !errors.Is(err, ErrReset) {
			t.Errorf("lost snapshot: %v", err)
		}
	})
}
