package raftguard

import "github.com/hashicorp/raft"

// MaxRequestBytes is what the entries of one request hold at most, unless the first alone
// holds more: a second at 1 MB/s.
const MaxRequestBytes = 1 << 20

// LimitBytes has a leader's request bring its first entries alone, at least one, so that
// they hold at most so many bytes, and reports whether it left some out. It changes the
// request that raft made: raft sends on from the last entry that is left in it.
//
// hashicorp/raft 1.8 bounds a request by the number of its entries, up to 1,024, and the
// network transport gives every request the same time, however long it is. What takes
// longer is sent again from its beginning, for ever: a follower that was away while 512
// entries of 64 KiB were written never has them over a link of 3 MB/s or less.
func LimitBytes(req *raft.AppendEntriesRequest, most int) (cut bool) {
	size := 0
	for i, entry := range req.Entries {
		size += len(entry.Data) + len(entry.Extensions)
		if i > 0 && size > most {
			req.Entries = req.Entries[:i]
			return true
		}
	}
	return false
}
