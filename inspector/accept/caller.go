package accept

import (
	"context"
	"errors"
	"net/http"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// pack takes the ramdisk's logs out of a document and packs the rest: this early for its
// hash, which takes as long as reading it does.
func (c *caller) pack(o *Options) (err error) {
	c.keeper = o.Live.Now().Logs
	c.logs = takeLogs(c.data, c.machine.BMC, c.keeper != nil)
	c.packed, err = o.Packer.Pack(c.data.JSON())
	c.machine.Document = c.packed.Hash
	return inspector.TooLarge(err)
}

// largeDocument is from where on a document is one of few that are worked on at once:
// read, it takes some ten times its bytes, and a processor for tens of milliseconds.
const largeDocument = 64 << 10

// computing works on a document of so many bytes, on a large one in a place for those, and
// not in its own: where many wait for that, small ones are not kept from theirs.
func computing(ctx context.Context, bytes int, work func() error) error {
	place := admission.Of(ctx)
	if place == nil {
		return work()
	}
	if bytes <= largeDocument {
		place.Read(bytes)
		return work()
	}
	err := place.Document(ctx, work)
	if errors.Is(err, admission.ErrBusy) {
		return inspector.Refuse(http.StatusServiceUnavailable, "Too many large documents are coming in at once; try again")
	}
	return err
}

// identifying identifies a machine, and charges the request with what that computes.
func identifying[T any](ctx context.Context, search identify.Search, work func(identify.Search) T) T {
	search, computed := search.Timed()
	if place := admission.Of(ctx); place != nil {
		defer func() { place.Compute(computed()) }()
	}
	return work(search)
}

// senderOf names the network that a callback came from.
func senderOf(ctx context.Context) string {
	if place := admission.Of(ctx); place != nil && place.Sender().IsValid() {
		return place.Sender().String()
	}
	return introspection.SourceUnknown
}

// caller is a ramdisk whose node is looked for, with what it sent.
type caller struct {
	data    *document.Document
	machine identify.Machine
	bytes   int // of the body
	packed  blobs.Packed
	keeper  inspector.LogKeeper // nil: logs are not wanted
	logs    inspector.RamdiskLogs
}
