package raftguard

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

func follower(failed time.Time, failure error) Follower {
	return Follower{
		Applied: func() uint64 { return 10 }, Term: func() uint64 { return 5 },
		Failure: func() (time.Time, error) { return failed, failure },
	}
}

// A snapshot of what is applied is answered, and read to its end, without raft.
func TestSnapshotThatBringsNothingIsNotInstalled(t *testing.T) {
	for _, c := range []struct {
		name        string
		index, term uint64
		answered    bool
		err         error
	}{
		{"of what is applied", 10, 5, true, nil},
		{"older", 3, 5, true, nil},
		{"newer", 11, 5, false, nil},
		{"of a leader of the past", 3, 4, false, nil},
		{"of a leader that was not heard yet", 3, 6, true, errNewTerm},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers, body := make(chan raft.RPCResponse, 1), strings.NewReader("snapshot")
				rpc := raft.RPC{Command: &raft.InstallSnapshotRequest{LastLogIndex: c.index, Term: c.term}, Reader: body,
					RespChan: answers}
				if got := follower(time.Time{}, nil).Answer(rpc); got != c.answered {
					t.Fatalf("answered: %v", got)
				}
				synctest.Wait()
				if !c.answered {
					return
				}
				if body.Len() > 0 {
					t.Errorf("%d bytes of the snapshot are unread", body.Len())
				}
				a := <-answers
				resp, _ := a.Response.(*raft.InstallSnapshotResponse)
				if !errors.Is(a.Error, c.err) || c.err == nil && (!resp.Success || resp.Term != 5) {
					t.Errorf("answer %+v, %v", resp, a.Error)
				}
			})
		})
	}
	if follower(time.Time{}, nil).Answer(raft.RPC{Command: &raft.AppendEntriesRequest{}}) {
		t.Error("another request was answered")
	}
}

// Only a request whose entries could not be stored ends with an error: raft's own
// answer makes the leader go back.
func TestFailureToStoreIsAnError(t *testing.T) {
	entries := []*raft.Log{{Index: 11}}
	for _, c := range []struct {
		name    string
		entries []*raft.Log
		success bool
		before  time.Duration // the failure, before the request
		failed  bool
	}{
		{"stored", entries, true, -time.Second, false},
		{"not stored", entries, false, -time.Second, true},
		{"a log that differs, after an earlier failure", entries, false, time.Second, false},
		{"a heartbeat", nil, false, -time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := follower(time.Now().Add(-c.before), syscall.ENOSPC)
			amend := f.Amends(raft.RPC{Command: &raft.AppendEntriesRequest{Entries: c.entries}})
			a := raft.RPCResponse{Response: &raft.AppendEntriesResponse{Success: c.success}}
			if amend != nil {
				amend(&a)
			}
			if errors.Is(a.Error, syscall.ENOSPC) != c.failed {
				t.Errorf("answer %+v, %v", a.Response, a.Error)
			}
		})
	}
}
