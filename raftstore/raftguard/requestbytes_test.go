package raftguard

import (
	"testing"

	"github.com/hashicorp/raft"
)

// TestRequestsAreBounded: a request brings as many entries as fit, and at least one.
func TestRequestsAreBounded(t *testing.T) {
	for _, c := range []struct {
		sizes []int
		want  int
	}{
		{nil, 0}, {[]int{50}, 1}, {[]int{500}, 1}, {[]int{500, 1}, 1}, {[]int{40, 60}, 2}, {[]int{40, 60, 1}, 2},
		{[]int{40, 61}, 1}, {[]int{0, 0, 100, 0, 1}, 4},
	} {
		req := &raft.AppendEntriesRequest{}
		for i, size := range c.sizes {
			req.Entries = append(req.Entries, &raft.Log{Index: uint64(i + 1), Data: make([]byte, size/2),
				Extensions: make([]byte, size-size/2)})
		}
		LimitBytes(req, 100)
		if len(req.Entries) != c.want {
			t.Errorf("%v: %d entries are left, want %d", c.sizes, len(req.Entries), c.want)
		}
	}
}
