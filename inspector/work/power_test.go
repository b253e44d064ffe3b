package work_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// switched is the model of Ironic, which the product's client changes, over HTTP.
type switched struct {
	*inspecttest.IronicModel
	client *ironic.Client
}

// SetPower implements work.Machines.
func (s switched) SetPower(ctx context.Context, node, target string) error {
	return s.client.SetPower(ctx, node, target)
}

// SetBootDevice implements work.Machines.
func (s switched) SetBootDevice(ctx context.Context, node, device string, persistent bool) error {
	return s.client.SetBootDevice(ctx, node, device, persistent)
}

// PatchNode implements inspector.NodeClient.
func (s switched) PatchNode(ctx context.Context, node string, patch []ironic.Patch) (ironic.Node, error) {
	return s.client.PatchNode(ctx, node, patch)
}

// switches has what begin begins with node A carried out, and returns what went out to Ironic
// meanwhile and how its record ends. fails says of each call whether it is not answered with
// success.
func switches(t *testing.T, begin func(o *inspecttest.Rig),
	fails func(o *inspecttest.Rig, call string, w http.ResponseWriter) bool) (sent []string, state string) {
	t.Helper()
	var mu sync.Mutex
	var rig *inspecttest.Rig
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		call := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		if r.Method == http.MethodPatch {
			call = "patch"
		}
		sent = append(sent, call+" while "+rig.Ironic.Nodes[inspecttest.NodeA].Provision)
		if !fails(rig, call, w) {
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer server.Close()
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		rig = o
		client, err := ironic.New(config.Ironic{Endpoint: server.URL, AuthType: "none", Retries: 5,
			RetryInterval: 2 * time.Second, Timeout: 30 * time.Second}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		begin(o)
		pool := work.NewPool(work.Options{
			Live: o.Live(), Peer: "h1", Log: o.RaftLog, Session: o.Member, Notifier: o.Notifier,
			Ironic: switched{o.Ironic, client}, Resolver: o.Zone, Health: o.Health, Packer: o.Packer, Notes: &o.Notes,
			Logger: o.Log,
		})
		stop := make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() { pool.Run(o.Ctx, stop) })
		time.Sleep(time.Minute) // in a bubble
		close(stop)
		running.Wait()
		rec, _ := o.RaftLog.Truth().Record(inspecttest.NodeA)
		state = rec.State.String()
	})
	return sent, state
}

// introspected begins an introspection of node A.
func introspected(o *inspecttest.Rig) { o.Accept(inspecttest.NodeA, inspecttest.MacA) }

// aborted ends one whose machine boots.
func aborted(o *inspecttest.Rig) {
	o.Boots(inspecttest.NodeA, inspecttest.MacA)
	if err := o.Service().Abort(o.Ctx, inspecttest.NodeA); err != nil {
		o.Fatal(err)
	}
}

// calledBack has its document arrive, which a hook patches the node by.
func calledBack(o *inspecttest.Rig) {
	o.Hooks = []inspector.Hook{inspecttest.After("patches", inspecttest.Patches)}
	o.Boots(inspecttest.NodeA, inspecttest.MacA)
	o.Calls(inspecttest.NodeA, inspecttest.MacA, "")
}

// Another user has the node locked when it is to be switched, and it is in production when it is
// free again: what was refused does not go out again.
func TestNodeIsReadBeforeEachTry(t *testing.T) {
	for name, c := range map[string]struct {
		begin  func(*inspecttest.Rig)
		locked string // the call that meets the lock
		want   []string
	}{
		"reset":       {introspected, "power", []string{"boot_device while manageable", "power while manageable"}},
		"boot device": {introspected, "boot_device", []string{"boot_device while manageable"}},
		"abort":       {aborted, "power", []string{"power while manageable"}},
		"hook":        {calledBack, "patch", []string{"patch while manageable"}},
	} {
		sent, state := switches(t, c.begin, func(o *inspecttest.Rig, call string, w http.ResponseWriter) bool {
			if call != c.locked || o.Ironic.Nodes[inspecttest.NodeA].Provision == "active" {
				return false
			}
			o.Ironic.Set(inspecttest.NodeA, func(n *ironic.Node) { n.Provision = "active" })
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"error_message": {"faultstring": "Node is locked by host c1"}}`)
			return true
		})
		if !slices.Equal(sent, c.want) || state != "error" {
			t.Errorf("try-unread: %s: %v, and the record is %q", name, sent, state)
		}
	}
}

// It is not known whether a node was reset: its answer was lost, or Ironic failed at it, once or
// as often as Ironic answers other questions in between. It is reset again with a boot device of
// that reset's own, as it may have used the one before up.
func TestEachResetHasItsBootDevice(t *testing.T) {
	drop := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	gateway := func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }
	for name, c := range map[string]struct {
		lose  func(w http.ResponseWriter)
		times int
	}{
		"connection":   {drop, 1},
		"gateway":      {gateway, 1},
		"conductor":    {func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, 1},
		"connections":  {drop, 5},
		"gateway, too": {gateway, 5},
	} {
		resets := 0
		sent, state := switches(t, introspected, func(_ *inspecttest.Rig, met string, w http.ResponseWriter) bool {
			if met != "power" {
				return false
			}
			if resets++; resets > c.times {
				return false
			}
			c.lose(w)
			return true
		})
		one := []string{"boot_device while manageable", "power while manageable"}
		if !slices.Equal(sent, slices.Repeat(one, 1+c.times)) || state != "waiting" {
			t.Errorf("reset-unknown: %s: %v, and the record is %q", name, sent, state)
		}
	}
}
