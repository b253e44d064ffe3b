package inspector

import (
	"context"
	"fmt"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/document"
)

// Load reads a stored document.
func Load(packer *blobs.Packer, v fsm.View, hash blobs.Hash) ([]byte, error) {
	blob, ok := v.Blob(hash)
	if !ok {
		return nil, fmt.Errorf("document %v is not in the state", hash)
	}
	return packer.Unpack(blob)
}

// EmptyDocument is what processed data is the changes to that came without the
// document it was made from, from elsewhere.
const EmptyDocument = "{}"

// Original reads the document that the processed data of a record was made from.
func Original(packer *blobs.Packer, v fsm.View, rec introspection.Record) ([]byte, error) {
	if rec.Unprocessed.IsZero() {
		return []byte(EmptyDocument), nil
	}
	return Load(packer, v, rec.Unprocessed)
}

// Processed makes the processed document of a record, of the one that it was made from.
func Processed(packer *blobs.Packer, v fsm.View, rec introspection.Record) (*document.Document, error) {
	text, err := Original(packer, v, rec)
	if err != nil {
		return nil, err
	}
	data, err := document.Parse(text)
	if err != nil {
		return nil, err
	}
	changes, err := Load(packer, v, rec.Processed)
	if err != nil {
		return nil, err
	}
	if err := data.Apply(changes); err != nil {
		return nil, fmt.Errorf("the stored data of node %s: %w", rec.Node, err)
	}
	return data, nil
}

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

// LogKeeper keeps what ramdisks log. Its methods are called concurrently.
type LogKeeper interface {
	// Wants reports whether logs are kept of an introspection that failed, or of
	// one that did not.
	Wants(failed bool) bool
	// Keep stores logs and says where, before ctx ends also where the file system hangs, or is slow for the
	// logs of many: a ramdisk waits. An error loses the logs and nothing else.
	Keep(ctx context.Context, logs RamdiskLogs) (path string, err error)
}

// RamdiskLogs is what came with a callback.
type RamdiskLogs struct {
	Node   string // "" if it is not known
	MAC    string // of the interface that booted, "" likewise
	BMC    string // address, "" likewise
	Base64 string // compressed archive
}
