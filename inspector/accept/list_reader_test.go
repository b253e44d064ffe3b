package accept_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// An answer to a ramdisk is due after so long, and it repeats its document so often.
const (
	answerDue   = 27 * time.Second
	attempts    = 5
	nextAttempt = 7 * time.Second
)

// listsTake makes each of Ironic's lists take so long, and counts those that are begun.
func listsTake(o *inspecttest.Rig, each time.Duration) *atomic.Int64 {
	var begun atomic.Int64
	o.Ironic.On(func(ctx context.Context, call string) error {
		if !strings.HasPrefix(call, "list") {
			return nil
		}
		begun.Add(1)
		pace.Wait(ctx, each)
		if ctx.Err() != nil {
			return &ironic.Error{Message: "the call was ended", Err: ctx.Err()}
		}
		return nil
	})
	return &begun
}

// attempt posts a document as a ramdisk does, once.
func attempt(o *inspecttest.Rig, s *accept.Service, body string) (string, error) {
	ctx, cancel := context.WithTimeout(o.Ctx, answerDue)
	defer cancel()
	return s.Continue(ctx, []byte(body))
}

// TestCallbackWhereIronicsListsTakeLong: the attempts of one ramdisk together find what none has the time for.
func TestCallbackWhereIronicsListsTakeLong(t *testing.T) {
	for what, c := range map[string]struct {
		mac  string
		door func(o *inspecttest.Rig) *accept.Service
	}{
		"discovery":     {inspecttest.Strange, (*inspecttest.Rig).Discovers},
		"in production": {inspecttest.MacA, (*inspecttest.Rig).Permits},
		"a port after the start": {lateMAC, func(o *inspecttest.Rig) *accept.Service {
			o.Ironic.PortsOf[inspecttest.NodeA] = append(o.Ironic.PortsOf[inspecttest.NodeA],
				ironic.Port{Node: inspecttest.NodeA, Address: lateMAC})
			o.Boots(inspecttest.NodeA, inspecttest.MacA)
			return o.Service()
		}},
	} {
		for _, each := range []time.Duration{time.Second, 15 * time.Second, 30 * time.Second} {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				s := c.door(o)
				listsTake(o, each)
				o.Work(func(*work.Pool) {
					var err error
					for range attempts {
						if _, err = attempt(o, s, inspecttest.Callback(c.mac, `,"ipmi_address":"198.18.0.9"`)); err == nil {
							return
						}
						var said *inspecttest.Refusal
						if !errors.As(err, &said) || said.Status != 503 || strings.Contains(said.Message, "cannot be reached") {
							t.Errorf("long-lists: %s: %v each: %v", what, each, err)
						}
						time.Sleep(nextAttempt) // in a bubble
					}
					t.Errorf("long-lists: %s: %v each: no attempt is answered: %v", what, each, err)
				})
			})
		}
	}
}

// TestListsAreReadAgain for a document that was answered, and for one whose lists the next attempt has time to read.
func TestListsAreReadAgain(t *testing.T) {
	for _, c := range []struct{ each, leaves time.Duration }{
		{time.Second, time.Minute}, {20 * time.Second, time.Minute}, {time.Second, time.Second / 2},
	} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			o.Boots(inspecttest.NodeA, inspecttest.MacA)
			s, body := o.Service(), inspecttest.Callback(lateMAC, "")
			listsTake(o, c.each)
			o.Work(func(*work.Pool) {
				ctx, cancel := context.WithTimeout(o.Ctx, c.leaves)
				defer cancel()
				if node, err := s.Continue(ctx, []byte(body)); err == nil {
					t.Errorf("lists-again: %v each: found %s before it has the port", c.each, node)
				}
				time.Sleep(c.each) // in a bubble
				if _, err := o.Ironic.CreatePort(o.Ctx, ironic.Port{Node: inspecttest.NodeA, Address: lateMAC}); err != nil {
					t.Fatal(err)
				}
				if node, err := attempt(o, s, body); err != nil || node != inspecttest.NodeA {
					t.Errorf("lists-again: %v each, after an attempt of %v: %q, %v", c.each, c.leaves, node, err)
				}
			})
		})
	}
}

// TestListsReadOnAreBounded: documents that any client invents do not keep lists, or have them read, without end.
func TestListsReadOnAreBounded(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Discovers()
		begun := listsTake(o, 20*time.Second)
		for n := range 2 * accept.MaxListed {
			ctx, cancel := context.WithCancel(o.Ctx)
			go func() {
				_, _ = s.Continue(ctx, []byte(inspecttest.Stranger(fmt.Sprintf(`,"bmc_address":"198.18.%d.%d"`, n/256, n%256))))
			}()
			synctest.Wait()
			cancel()
		}
		synctest.Wait()
		if n := s.Listed(); n > accept.MaxListed {
			t.Errorf("lists-bound: %d documents", n)
		}
		time.Sleep(10 * time.Minute) // in a bubble
		if n, lists := s.Listed(), begun.Load(); n != 0 || lists > 6 {
			t.Errorf("lists-bound: %d documents are left, and %d lists were read", n, lists)
		}
	})
}
