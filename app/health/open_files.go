package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Times of Descriptors.
const (
	descriptorCheck = time.Second
	// descriptorHold is for how long after a failure a peer should not lead: as
	// long as the flood that caused it may come and go.
	descriptorHold = 10 * time.Second
)

// Descriptors knows whether this process can open files and accept connections. A
// leader that cannot would keep its followers, whose connections are open, and
// serve no caller. Methods may be called concurrently.
type Descriptors struct {
	open func() error // takes a descriptor and gives it back
	log  *slog.Logger

	mu  sync.Mutex
	at  time.Time // of the newest failure
	err error
}

// NewDescriptors reports failures to log.
func NewDescriptors(log *slog.Logger) *Descriptors {
	return &Descriptors{log: logs.Limit(log), open: func() error {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		return f.Close()
	}}
}

// Run looks until ctx ends.
func (d *Descriptors) Run(ctx context.Context) {
	for range pace.Every(ctx, descriptorCheck) {
		d.Note(d.open())
	}
}

// Note hears of an attempt to open or to accept. Errors other than a lack of
// descriptors or of memory for them say nothing about this process.
func (d *Descriptors) Note(err error) {
	for _, lack := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if !errors.Is(err, lack) {
			continue
		}
		d.log.Error("open file or accept connection failed; raise LimitNOFILE= or find out who connects", "err", err)
		d.mu.Lock()
		d.at, d.err = time.Now(), lack
		d.mu.Unlock()
		return
	}
}

// Unfit returns why this peer should not lead, nil if it may.
func (d *Descriptors) Unfit() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if age := time.Since(d.at); d.err != nil && age < descriptorHold {
		return fmt.Errorf("it could not open a file or accept a connection %v ago: %w", age.Round(time.Second), d.err)
	}
	return nil
}
