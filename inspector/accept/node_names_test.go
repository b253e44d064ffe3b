package accept

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// namingIronic knows nodes and counts the lists that it was asked for.
type namingIronic struct {
	mu     sync.Mutex
	lists  int
	err    error
	silent bool // it answers when the caller gives up
}

func (f *namingIronic) NodeNames(ctx context.Context) ([]ironic.NodeName, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	if f.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []ironic.NodeName{{UUID: nodeA, Name: "node-1"}}, f.err
}

func (f *namingIronic) Node(ctx context.Context, ref string) (ironic.Node, error) {
	if f.silent {
		<-ctx.Done()
		return ironic.Node{}, ctx.Err()
	}
	if ref == "nobody" {
		return ironic.Node{}, &ironic.Error{Status: http.StatusNotFound, Err: ironic.ErrNoNode}
	}
	return ironic.Node{UUID: nodeA, Name: "node-1"}, f.err
}

func TestNamesAreListedOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := &namingIronic{}
		names := NewNames(asked, time.Now)
		var asking sync.WaitGroup
		for range 20 {
			asking.Go(func() {
				if got, err := names.All(t.Context()); err != nil ||
					!slices.Equal(got, []ironic.NodeName{{UUID: nodeA, Name: "node-1"}}) {
					t.Errorf("%v, %v", got, err)
				}
			})
		}
		asking.Wait()
		if asked.lists != 1 {
			t.Errorf("Ironic listed its nodes %d times for 20 callers", asked.lists)
		}
		time.Sleep(namesAge + time.Second) // in a bubble
		if _, err := names.All(t.Context()); err != nil || asked.lists != 2 {
			t.Errorf("an old list was served again (%d lists, %v)", asked.lists, err)
		}
	})
}

// TestNamesAreBounded: an Ironic that does not answer costs a person seconds,
// also one who waits for another's question, and the answer says why.
func TestNamesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := NewNames(&namingIronic{silent: true}, time.Now)
		began := time.Now()
		var asking sync.WaitGroup
		for range 3 {
			asking.Go(func() {
				var said *inspector.Refusal
				if _, err := names.All(t.Context()); !errors.As(err, &said) || said.Status != http.StatusServiceUnavailable {
					t.Errorf("a list from an Ironic that is silent: %v", err)
				}
			})
		}
		asking.Wait()
		if took := time.Since(began); took != namesLimit {
			t.Errorf("it took %v, want %v", took, namesLimit)
		}
		began = time.Now()
		if _, err := names.Of(t.Context(), nodeA); err == nil || time.Since(began) != nameLimit {
			t.Errorf("one name: %v after %v, want an error after %v", err, time.Since(began), nameLimit)
		}
	})
}

func TestNameOfANode(t *testing.T) {
	names := NewNames(&namingIronic{}, time.Now)
	if got, err := names.Of(t.Context(), "node-1"); err != nil || got.String() != "node-1 ("+nodeA+")" {
		t.Errorf("%v, %v", got, err)
	}
	var said *inspector.Refusal
	if _, err := names.Of(t.Context(), "nobody"); !errors.As(err, &said) || said.Status != http.StatusNotFound {
		t.Errorf("of no node: %v", err)
	}
}

const nodeA = "11111111-1111-4111-8111-111111111111"
