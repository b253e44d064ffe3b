package inspector

import (
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/inspector/document"
)

// Suspects are documents that a process of this host was examining when it
// ended: it may have died of them. Its methods are called concurrently.
type Suspects interface {
	// Examine notes that a document is examined. It is false for a suspect, for
	// one that is being examined already, and where no note can be left.
	Examine(document blobs.Hash) bool
	// Clear ends what Examine began.
	Clear(document blobs.Hash)
}

// Callback is a ramdisk's data, and the node that it was found to come from.
type Callback struct {
	Node   string
	Packed blobs.Packed
	Data   *document.Document // of Packed; the worker that takes the callback may change it
}
