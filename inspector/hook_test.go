package inspector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// fakeIronic is an Ironic with the node and ports that it was given; it counts how
// often ports are listed.
type fakeIronic struct {
	Ironic // what no task may call
	node   ironic.Node
	ports  []ironic.Port
	err    error
	listed int
}

func (s *fakeIronic) PatchNode(_ context.Context, node string, patch []ironic.Patch) (ironic.Node, error) {
	n := s.node
	n.UUID, n.Properties = node, map[string]any{"patched": len(patch)}
	return n, s.err
}

func (s *fakeIronic) Ports(context.Context, string) ([]ironic.Port, error) {
	s.listed++
	return s.ports, s.err
}

func TestTaskListsPortsOnce(t *testing.T) {
	for _, ports := range [][]ironic.Port{nil, {{UUID: "p"}}} {
		s := &fakeIronic{ports: ports}
		task := NewTask(empty(t), ironic.Node{UUID: "n"}, s)
		for range 2 {
			if got, err := task.Ports(t.Context()); err != nil || len(got) != len(ports) {
				t.Errorf("%v, %v", got, err)
			}
		}
		if s.listed != 1 {
			t.Errorf("%d ports were listed %d times", len(ports), s.listed)
		}
		got, _ := task.Ports(t.Context())
		task.SetPorts(append(got, ironic.Port{UUID: "q"}))
		if got, err := task.Ports(t.Context()); err != nil || len(got) != len(ports)+1 || s.listed != 1 {
			t.Errorf("after a change: %v, %v", got, err)
		}
		task.SetPorts(nil)
		if got, err := task.Ports(t.Context()); err != nil || len(got) != len(ports) || s.listed != 2 {
			t.Errorf("listed anew: %v, %v", got, err)
		}
	}
}

func TestTaskKeepsTheNodeAsPatched(t *testing.T) {
	s := &fakeIronic{node: ironic.Node{Provision: "active"}}
	task := NewTask(empty(t), ironic.Node{UUID: "n", Provision: "manageable"}, s)
	if task.Node().Deployed() {
		t.Error("a manageable node counts as deployed")
	}
	if err := task.PatchNode(t.Context(), ironic.Patch{Op: "add"}, ironic.Patch{Op: "remove"}); err != nil {
		t.Fatal(err)
	}
	if n := task.Node(); n.UUID != "n" || n.Properties["patched"] != 2 || !task.Node().Deployed() {
		t.Errorf("%+v", n)
	}
	s.err = errors.New("no conductor")
	before := task.Node()
	if err := task.PatchNode(t.Context()); !errors.Is(err, s.err) || task.Node().Provision != before.Provision {
		t.Errorf("%v, %+v", err, task.Node())
	}
	if _, err := task.Ports(t.Context()); !errors.Is(err, s.err) {
		t.Errorf("%v", err)
	}
}

func TestProblemsAreToldFromOtherErrors(t *testing.T) {
	err := fmt.Errorf("hook: %w", document.Failed("disk %d on %s", 1, "fire"))
	if p, ok := errors.AsType[*document.Problem](err); !ok || p.Error() != "disk 1 on fire" {
		t.Errorf("%v, %v", p, ok)
	}
	if _, ok := errors.AsType[*document.Problem](errors.New("disk 1 on fire")); ok {
		t.Error("any error is a problem")
	}
}

// A hook that panics, or never ends, leaves the next one a goroutine to run in.
func TestHooksShareAGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := HookRunner{Limit: time.Second, Log: slog.New(slog.DiscardHandler)}
		defer r.Stop()
		ended := make(chan struct{})
		parts := []struct {
			part func(context.Context) error
			want string
		}{
			{func(context.Context) error { return nil }, ""},
			{func(context.Context) error { panic("wild") }, "wild"},
			{func(context.Context) error { return errors.New("refused") }, "refused"},
			{func(context.Context) error { <-ended; return nil }, "hook some did not end within 1s"},
			{func(ctx context.Context) error { return ctx.Err() }, ""},
		}
		for _, p := range parts {
			err := r.Run(t.Context(), named("some"), p.part)
			if (err == nil) != (p.want == "") || err != nil && err.Error() != p.want {
				t.Errorf("%v, want %q", err, p.want)
			}
		}
		close(ended)
	})
}

// named is a hook that does nothing.
type named string

func (n named) Name() string { return string(n) }

// empty is a document without members.
func empty(t *testing.T) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(EmptyDocument))
	if err != nil {
		t.Fatal(err)
	}
	return d
}
