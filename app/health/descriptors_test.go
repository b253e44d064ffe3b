package health

import (
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestDescriptors: a process that has none left should not lead, until it had some
// for a while.
func TestDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDescriptors(slog.New(slog.DiscardHandler))
		d.Note(d.open())
		d.Note(fmt.Errorf("accept: %w", net.ErrClosed))
		if err := d.Unfit(); err != nil {
			t.Errorf("with descriptors: %v", err)
		}
		for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, &net.OpError{Op: "accept", Err: syscall.EMFILE}} {
			d.Note(lack)
			if d.Unfit() == nil {
				t.Errorf("descriptors-unfit: after %v this peer may lead", lack)
			}
			time.Sleep(descriptorHold) // in a bubble
			if err := d.Unfit(); err != nil {
				t.Errorf("%v later: %v", descriptorHold, err)
			}
		}
	})
}
