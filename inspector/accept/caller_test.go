package accept

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Large documents are read one of a source at a time and two in all; small ones do not
// wait for them.
func TestLargeDocumentsAreReadInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		by := admission.NewController()
		from := func(last byte) context.Context {
			source := admission.SourceOf(netip.AddrFrom4([4]byte{192, 0, 2, last}))
			p, err := by.Admit(t.Context(), admission.Callback, admission.Caller{Source: source})
			if err != nil {
				t.Fatal(err)
			}
			return admission.With(t.Context(), p)
		}
		large, small := make([]byte, largeDocument+1), make([]byte, largeDocument)
		end := make(chan struct{}) // closed below
		var at, over atomic.Int64
		work := func() error {
			if at.Add(1) > 2 {
				over.Add(1)
			}
			<-end // in a bubble
			at.Add(-1)
			return nil
		}
		for n := range 8 {
			go func() { _ = computing(from(byte(n/4)), len(large), work) }() // its error is work's
			synctest.Wait()
		}
		if at.Load() != 2 {
			t.Errorf("document-places: %d large documents of two sources are read at once, want 2", at.Load())
		}
		if in, _ := by.Taken(admission.Callback); in != 0 {
			t.Errorf("document-aside: %d that read a large document, or wait for that, hold the place of a callback", in)
		}
		read := false
		if err := computing(from(9), len(small), func() error { read = true; return nil }); err != nil || !read {
			t.Errorf("document-small: a small one beside them: %v", err)
		}
		close(end)
		synctest.Wait()
		if over.Load() != 0 || at.Load() != 0 {
			t.Errorf("document-places: %d were one too many, %d are still read", over.Load(), at.Load())
		}
	})
}

// A large document for which there is no place may be sent again.
func TestALargeDocumentWithoutAPlaceComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		by := admission.NewController()
		caller := admission.Caller{Source: admission.SourceOf(netip.AddrFrom4([4]byte{192, 0, 2, 1}))}
		read := func(work func() error) error {
			p, err := by.Admit(t.Context(), admission.Callback, caller)
			if err != nil {
				return err
			}
			defer p.Leave()
			return computing(admission.With(t.Context(), p), len(make([]byte, largeDocument+1)), work)
		}
		end := make(chan struct{}) // closed below
		go func() {
			_ = read(func() error { <-end; return nil }) // in a bubble
		}()
		synctest.Wait()
		err := read(func() error { return nil })
		close(end)
		var said *inspector.Refusal
		if !errors.As(err, &said) || said.Status != http.StatusServiceUnavailable {
			t.Errorf("document-busy: %v, want 503", err)
		}
	})
}
