package app

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
		d := newDescriptors(slog.New(slog.DiscardHandler))
		d.note(d.open())
		d.note(fmt.Errorf("accept: %w", net.ErrClosed))
		if err := d.unfit(); err != nil {
			t.Errorf("with descriptors: %v", err)
		}
		for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, &net.OpError{Op: "accept", Err: syscall.EMFILE}} {
			d.note(lack)
			if d.unfit() == nil {
				t.Errorf("descriptors-unfit: after %v this peer may lead", lack)
			}
			time.Sleep(descriptorHold) // in a bubble
			if err := d.unfit(); err != nil {
				t.Errorf("%v later: %v", descriptorHold, err)
			}
		}
	})
}
