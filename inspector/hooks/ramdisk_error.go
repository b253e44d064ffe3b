package hooks

import (
	"context"

	"github.com/trivet-ha/trivet/inspector/document"

	"github.com/trivet-ha/trivet/inspector"
)

// ramdiskError refuses the data of a ramdisk that says it failed.
type ramdiskError struct{}

var _ inspector.Before = ramdiskError{}

// Name implements inspector.Hook.
func (ramdiskError) Name() string { return "ramdisk_error" }

// Before implements inspector.Before. An error that is no text is repeated as
// JSON; 4 KiB of it are.
func (ramdiskError) Before(_ context.Context, d *document.Document) error {
	v := d.Value("error")
	if v.Empty() {
		return nil
	}
	text, err := textOf("error", v)
	if err != nil {
		text = string(v.Raw())
	}
	return document.Failed("Ramdisk reported error: %s", clipped(text))
}
