package cluster

import (
	"errors"
	"fmt"
	"testing"

	"github.com/trivet-ha/trivet/raftstore/logerr"
)

func TestProposalsAreFramed(t *testing.T) {
	calls := func() []*proposal { return []*proposal{{Request: []byte("one")}, {}, {Request: []byte("three")}} }
	commands, err := decodeProposals(encodeProposals(calls()))
	if err != nil || fmt.Sprintf("%q", commands) != `["one" "" "three"]` {
		t.Fatalf("%q, %v", commands, err)
	}
	whole := encodeProposals(calls())
	for n := range whole {
		got, err := decodeProposals(whole[:n])
		if err == nil && len(encodeProposals(calls()[:len(got)])) != n {
			t.Errorf("%d of %d bytes are taken for %q", n, len(whole), got)
		}
	}
	if _, err := decodeProposals(make([]byte, (maxProposals+1)*proposalHead)); err == nil {
		t.Errorf("%d commands are taken", maxProposals+1)
	}
}

func TestResultsAreFramed(t *testing.T) {
	var whole []byte
	whole = appendResult(whole, []byte("done"), nil)
	whole = appendResult(whole, nil, logerr.ErrBusy)
	whole = appendResult(whole, nil, logerr.ErrNotLeader)
	whole = appendResult(whole, nil, errors.New("something else"))
	for n := range len(whole) + 1 {
		calls := []*proposal{{}, {}, {}, {}}
		decodeResults(whole[:n], calls)
		for i, want := range []error{nil, logerr.ErrBusy, logerr.ErrNotLeader} {
			got := calls[i].Err
			if errors.Is(got, errFraming) { // cut off: unknown
				continue
			}
			if !errors.Is(got, want) {
				t.Errorf("%d bytes: outcome %d is %v, want %v", n, i, got, want)
			}
		}
		if n == len(whole) && (string(calls[0].Response) != "done" || calls[3].Err == nil ||
			errors.Is(calls[3].Err, errFraming)) {
			t.Errorf("%q, %v", calls[0].Response, calls[3].Err)
		}
		if n < len(whole) && !errors.Is(calls[3].Err, errFraming) {
			t.Errorf("%d bytes: the last outcome, cut off, is %v", n, calls[3].Err)
		}
	}
}
