package host

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore"
)

var errRefused = errors.New("refused for the test")

// bare is a network without certificates, whose connections end with it.
type bare struct {
	net.Listener
	refused string // server ID

	mu    sync.Mutex
	conns []net.Conn
	moved map[string]string // old address → that of the peer since it was started again
}

func listen(t *testing.T) *bare {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return &bare{Listener: ln}
}

// AcceptPeer implements Network: the other end is always peer a.
func (b *bare) AcceptPeer() (net.Conn, string, error) {
	conn, err := b.Listener.Accept()
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.conns = append(b.conns, conn)
	}
	return conn, "a", err
}

// Authorize implements Network.
func (b *bare) Authorize(peer string) error {
	if peer == b.refused {
		return errRefused
	}
	return nil
}

func (b *bare) DialPeer(ctx context.Context, _, hostport string) (net.Conn, error) {
	var d net.Dialer
	b.mu.Lock()
	hostport = cmp.Or(b.moved[hostport], hostport)
	b.mu.Unlock()
	return d.DialContext(ctx, "tcp", hostport)
}

// peer answers every request on a network until the returned function ends it,
// and all its connections with it, as a killed process does.
func peer(t *testing.T, b *bare) (kill func()) {
	t.Helper()
	transport := NewTransport(b, "b@"+b.Addr().String(), slog.New(slog.DiscardHandler))
	stop := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for {
			select {
			case rpc := <-transport.Consumer():
				switch rpc.Command.(type) {
				case *raft.RequestVoteRequest:
					rpc.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
				case *raft.AppendEntriesRequest:
					rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
				case *raft.RequestPreVoteRequest:
					rpc.Respond(&raft.RequestPreVoteResponse{Granted: true}, nil)
				default:
					rpc.Respond(&raft.TimeoutNowResponse{}, nil)
				}
			case <-stop:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		if err := transport.Close(); err != nil {
			t.Error(err)
		}
		b.mu.Lock()
		for _, conn := range b.conns {
			_ = conn.Close() // the transport may have done so
		}
		b.mu.Unlock()
		close(stop)
		work.Wait()
	})
}

// TestRequestsSurviveTheRestartOfAPeer keeps connections to a peer that is
// started again: the first request arrives.
func TestRequestsSurviveTheRestartOfAPeer(t *testing.T) {
	own := listen(t)
	own.moved = make(map[string]string)
	near := NewTransport(own, "a@127.0.0.1:1", slog.New(slog.DiscardHandler))
	defer near.Close()
	ofA := raft.RPCHeader{ID: []byte("a"), Addr: []byte("a@127.0.0.1:1")}
	for name, ask := range map[string]func(raftstore.Transport, raft.ServerAddress) (bool, error){
		"vote": func(t raftstore.Transport, to raft.ServerAddress) (bool, error) {
			var resp raft.RequestVoteResponse
			err := t.RequestVote("b", to, &raft.RequestVoteRequest{RPCHeader: ofA, Term: 2}, &resp)
			return resp.Granted, err
		},
		"pre-vote": func(t raftstore.Transport, to raft.ServerAddress) (bool, error) {
			var resp raft.RequestPreVoteResponse
			err := t.RequestPreVote("b", to, &raft.RequestPreVoteRequest{RPCHeader: ofA, Term: 2}, &resp)
			return resp.Granted, err
		},
		"entries": func(t raftstore.Transport, to raft.ServerAddress) (bool, error) {
			var resp raft.AppendEntriesResponse
			err := t.AppendEntries("b", to, &raft.AppendEntriesRequest{RPCHeader: ofA, Term: 2}, &resp)
			return resp.Success, err
		},
		"be elected": func(t raftstore.Transport, to raft.ServerAddress) (bool, error) {
			var resp raft.TimeoutNowResponse
			return true, t.TimeoutNow("b", to, &raft.TimeoutNowRequest{RPCHeader: ofA}, &resp)
		},
	} {
		t.Run(name, func(t *testing.T) {
			first := listen(t)
			at := first.Addr().String()
			own.mu.Lock()
			delete(own.moved, at) // an earlier case may have had this port
			own.mu.Unlock()
			to := raft.ServerAddress("b@" + at)
			kill := peer(t, first)
			defer kill()
			var asking sync.WaitGroup
			for range connsPerPeer { // at once, so that as many connections are kept
				asking.Go(func() {
					if granted, err := ask(near, to); !granted || err != nil {
						t.Errorf("asked at first: %v, %v", granted, err)
					}
				})
			}
			asking.Wait()
			kill()
			second := listen(t) // another process may have the first port by now
			own.mu.Lock()
			own.moved[at] = second.Addr().String()
			own.mu.Unlock()
			defer peer(t, second)()
			if granted, err := ask(near, to); !granted || err != nil {
				t.Errorf("after the restart: %v, %v", granted, err)
			}
		})
	}
}
