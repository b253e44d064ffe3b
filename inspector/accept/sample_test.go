package accept_test

import (
	"testing"

	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

func BenchmarkParseDocument(b *testing.B) {
	raw := inspecttest.RamdiskSample(16)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := document.Parse(raw); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCallback is what this package does with a document on its way: at
// the door, at the worker, and when the processed one is stored.
func BenchmarkCallback(b *testing.B) {
	raw := inspecttest.RamdiskSample(16)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		d, err := document.Parse(raw)
		if err != nil {
			b.Fatal(err)
		}
		d.Delete("logs")
		if identify.Of(d); !d.Has("inventory") {
			b.Fatal("an empty document")
		}
		if d, err = document.Parse(d.JSON()); err != nil {
			b.Fatal(err)
		}
		if err := d.Set("macs", []string{"52:54:00:00:00:00"}); err != nil {
			b.Fatal(err)
		}
		if _, err := d.Overlay(); err != nil {
			b.Fatal(err)
		}
	}
}
