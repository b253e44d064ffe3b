package inspector

import (
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
