package introspection

import (
	"slices"

	"github.com/trivet-ha/trivet/fsm/entry"
)

// Shares of the queue. A stranger may know the MAC of a machine under introspection, and send
// callbacks of it that all differ.
const (
	// MaxOfNode and MaxBytesOfNode bound the callbacks of one node that are queued. A machine
	// that is reset sends another document each time.
	MaxOfNode      = 16
	MaxBytesOfNode = 8 << 20
	// MaxBytesOfQueue bounds the documents of all callbacks that are queued, compressed.
	// Machines that are being discovered have half of it.
	MaxBytesOfQueue = 256 << 20
	// ReservedQueue is the part of the queue that is left to what ends introspections: timeouts,
	// aborts and deletions.
	ReservedQueue = 1000
)

// logVersionShares is the log version that brought the shares of the queue and the refusal of
// a second reapply: peers of an older one, which apply the same entries, know neither.
const logVersionShares = 3

// queueFull reports whether the queue has no room for a request.
func queueFull(t Txn, e Event) bool {
	most := MaxQueue
	if t.Version >= logVersionShares && e != EventTimeout && e != EventAbort && e != EventDelete {
		most -= ReservedQueue
	}
	return t.queue.requests.Size() >= most
}

// queueRoom refuses a request for which the queue has no room.
func queueRoom(t Txn, rec Record, c Enqueue) entry.Result {
	if queueFull(t, c.Event) {
		return full(t)
	}
	if t.Version < logVersionShares || c.Event != EventProcess {
		return entry.Done()
	}
	queued := queuedOf(t.Tables, c.Node, EventProcess)
	bytes := 0
	for _, r := range queued {
		bytes += r.Bytes
	}
	if len(queued) >= MaxOfNode || bytes+len(c.Document.Data) > MaxBytesOfNode {
		return entry.Refuse(entry.QueueFull,
			"%d callbacks (%d MiB) of node %s are queued, at most %d (%d MiB) may be; try again later",
			len(queued), bytes>>20, c.Node, MaxOfNode, MaxBytesOfNode>>20)
	}
	most := MaxBytesOfQueue
	if rec.State == NodeEnrolling {
		most /= 2
	}
	if t.queue.bytes+len(c.Document.Data) > most {
		return entry.Refuse(entry.QueueFull, "%d MiB of documents are queued; try again later", t.queue.bytes>>20)
	}
	return discoveredRoom(t, rec.Discovery.Source, len(c.Document.Data))
}

// full refuses a request of any node.
func full(t Txn) entry.Result {
	return entry.Refuse(entry.QueueFull, "%d requests are queued; try again later", t.queue.requests.Size())
}

// queuedOf returns a node's requests for an event.
func queuedOf(s *Tables, node string, e Event) []QueuedRequest {
	return slices.DeleteFunc(s.QueueOf(node), func(r QueuedRequest) bool { return r.Event != e })
}

// reapplies reports whether a reapply of a node is queued: the first that ends would take
// the node out of reapplying, and the others would do nothing.
func reapplies(t Txn, node string) bool {
	return t.Version >= logVersionShares && len(queuedOf(t.Tables, node, EventReapply)) > 0
}
