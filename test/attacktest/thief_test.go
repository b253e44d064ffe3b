//go:build e2e

//lint:file-ignore SA1019 an attacker fills the deprecated names of a sender, too

package attacktest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/net/http2"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/settings"
)

func split(address raft.ServerAddress) (id, hostport string, err error) {
	id, hostport, ok := strings.Cut(string(address), "@")
	if !ok {
		return "", "", fmt.Errorf("server address %q", address)
	}
	return id, hostport, nil
}

func (s *thief) dial(id, hostport, protocol string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(s.life, timeout)
	defer cancel()
	d := tls.Dialer{Config: pki.ClientTLS(s.end, id, protocol)}
	return d.DialContext(ctx, "tcp", hostport)
}

// open opens a connection that lasts until the test ends, unless the victim
// closes it.
func (s *thief) open(t *testing.T, victim *host, protocol string) net.Conn {
	t.Helper()
	conn, err := s.dial(victim.id.ID, victim.id.Address, protocol, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the victim may have done so
	if protocol == "h2" {                  // else it would be closed for want of a preface
		_, err := conn.Write([]byte(http2.ClientPreface))
		if err := errors.Join(err, http2.NewFramer(conn, nil).WriteSettings()); err != nil {
			t.Fatal(err)
		}
	}
	return conn
}

// Accept implements net.Listener: nobody calls a thief.
func (s *thief) Accept() (net.Conn, error) {
	<-s.life.Done()
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (s *thief) Close() error {
	s.stop()
	return nil
}

// Addr implements net.Listener.
func (s *thief) Addr() net.Addr { return &net.TCPAddr{} }

// claim is how a request names its sender.
func claim(server string) raft.RPCHeader {
	id, _, _ := strings.Cut(server, "@")
	return raft.RPCHeader{ProtocolVersion: 3, ID: []byte(id), Addr: []byte(server)}
}

// command sends every request of raft to a victim in the name of a server, in a
// term far above its own, and names those that had an effect.
func (s *thief) command(t *testing.T, victim *host, as string) (taken []string) {
	t.Helper()
	id, to := raft.ServerID(victim.id.ID), raft.ServerAddress(victim.address())
	stats := victim.peer.Core().Store.Stats()
	term := stats.Term + 100
	forged, err := fsm.Encode(fsm.Header{}, settings.PutSetting{Key: "forged", Value: "yes"})
	if err != nil {
		t.Fatal(err)
	}
	note := func(what string, yes bool) {
		if yes {
			taken = append(taken, what)
		}
	}
	var vote raft.RequestVoteResponse
	err = s.net.RequestVote(id, to,
		&raft.RequestVoteRequest{RPCHeader: claim(as), Term: term, LastLogIndex: 1 << 40, LastLogTerm: term,
			LeadershipTransfer: true}, &vote)
	note("vote", err == nil && (vote.Granted || vote.Term >= term))
	var pre raft.RequestPreVoteResponse
	err = s.net.RequestPreVote(id, to,
		&raft.RequestPreVoteRequest{RPCHeader: claim(as), Term: term, LastLogIndex: 1 << 40, LastLogTerm: term}, &pre)
	note("pre-vote", err == nil && pre.Granted)
	var now raft.TimeoutNowResponse
	note("election", s.net.TimeoutNow(id, to, &raft.TimeoutNowRequest{RPCHeader: claim(as)}, &now) == nil)
	var beat raft.AppendEntriesResponse
	err = s.net.AppendEntries(id, to, &raft.AppendEntriesRequest{RPCHeader: claim(as), Term: term, Leader: []byte(as)},
		&beat)
	note("heartbeat", err == nil && beat.Term >= term)
	var entries raft.AppendEntriesResponse
	next := stats.LastIndex + 1
	err = s.net.AppendEntries(id, to, &raft.AppendEntriesRequest{
		RPCHeader: claim(as), Term: term, Leader: []byte(as), PrevLogEntry: stats.LastIndex, PrevLogTerm: stats.Term,
		Entries: []*raft.Log{{Index: next, Term: term, Type: raft.LogCommand, Data: forged}}, LeaderCommitIndex: next,
	}, &entries)
	note("entries", err == nil && (entries.Success || entries.Term >= term))
	var snap raft.InstallSnapshotResponse
	err = s.net.InstallSnapshot(id, to, &raft.InstallSnapshotRequest{
		RPCHeader: claim(as), SnapshotVersion: 1, Term: term, Leader: []byte(as), LastLogIndex: 1 << 40, LastLogTerm: term,
		Size: 4,
	}, &snap, strings.NewReader("junk"))
	note("snapshot", err == nil && (snap.Success || snap.Term >= term))
	return taken
}

// call makes a request over HTTP/2 and returns its status.
func (s *thief) call(victim *host, method, path string) (int, error) {
	tr := &http2.Transport{DialTLSContext: func(context.Context, string, string, *tls.Config) (net.Conn, error) {
		return s.dial(victim.id.ID, victim.id.Address, "h2", 3*time.Second)
	}}
	defer tr.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(s.life, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "https://"+victim.id.Address+path, bytes.NewReader(nil))
	if err != nil {
		return 0, err
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
