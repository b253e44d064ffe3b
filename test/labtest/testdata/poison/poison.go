package hooks

import (
	"context"
	"os"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
)

// poison is a hook that only a test's binary has: it does what the document
// asks for.
type poison struct{}

var (
	_ inspector.Before = poison{}
	_ inspector.After  = poison{}
)

// Name implements inspector.Hook.
func (poison) Name() string { return "poison" }

// Before implements inspector.Before.
func (poison) Before(_ context.Context, d *document.Document) error { return swallow(d, "before") }

// After implements inspector.After.
func (poison) After(_ context.Context, t *inspector.Task) error { return swallow(t.Data, "after") }

// swallow looks whether the document is poisoned for this part of processing.
func swallow(d *document.Document, part string) error {
	var how string
	if _, err := d.Get("poison_"+part, &how); err != nil {
		return err
	}
	switch how {
	case "exit":
		os.Exit(3)
	case "panic":
		panic("poisoned")
	}
	return nil
}
