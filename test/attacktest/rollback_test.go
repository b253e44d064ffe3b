//go:build e2e

package attacktest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/settings"
)

// past is a follower of three hosts that was stopped while its disk was copied,
// and has reported since what it applied after that.
type past struct {
	host   *host
	others []*host
	copy   string // of the folder that makes it a peer
}

func (h *host) folder() string { return filepath.Join(h.Config.DataDir, "peer") }

func copyFolder(t *testing.T, to, from string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
		t.Fatal(err)
	}
}

func newPast(t *testing.T) past {
	t.Helper()
	hosts := newCluster(t, 3)
	until(t, "all follow a leader", func() bool { return led(hosts) != nil })
	p := past{host: hosts[2], others: hosts[:2], copy: filepath.Join(t.TempDir(), "peer")}
	if led(hosts) == p.host {
		p.host, p.others = hosts[1], []*host{hosts[0], hosts[2]}
	}
	// Its snapshot says where the host is: a copy that knew nothing would wait for a
	// leader before it says where it is itself.
	if err := p.host.peer.Core().Store.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.host.stop()
	copyFolder(t, p.copy, p.host.folder())
	p.host.start()
	before := p.reported()
	p.others[0].must(settings.PutSetting{Key: "acknowledged", Value: "yes"})
	until(t, "the host has reported what it applied", func() bool { return p.reported() > before })
	return p
}

// reported is how far the others know the host to have come.
func (p past) reported() fencing.Token { return p.others[0].view().Progress(p.host.id.ID) }

// stopsAsRolledBack wants that a host ends by itself, before its log has grown to
// what it had reported.
func (p past) stopsAsRolledBack(h *host) {
	h.t.Helper()
	var why error
	until(h.t, "rollback-unnoticed: the host stops", func() bool {
		select {
		case why = <-h.peer.Ended():
			return true
		default:
			return false
		}
	})
	var err *cluster.RolledBackError
	if !errors.Is(why, app.ErrRolledBack) || !errors.As(why, &err) {
		h.t.Errorf("the host stops for another reason: %v", why)
	}
	if store := h.peer.Core().Store; fencing.At(store.View().Base(), store.Stats().LastIndex) >= p.reported() {
		h.t.Errorf("rolled-back-takes-part: the log of %s has grown to %d", h.Config.Name, store.Stats().LastIndex)
	}
	h.stop()
}

// A host that gets an older copy of its disk back takes no part in an election: it
// could elect a peer that lacks what the host had acknowledged. It stops, says so,
// and says the same again when it is started again.
func TestRolledBackHostDoesNotVote(t *testing.T) {
	p := newPast(t)
	p.host.stop()
	copyFolder(t, p.host.folder(), p.copy)
	for range 2 {
		p.host.start()
		p.stopsAsRolledBack(p.host)
	}
	if led(p.others) == nil {
		t.Error("the others follow no leader")
	}
}

// A copy of a host's disk that is started elsewhere, while the host runs, stops. It
// does not give the others its own address as the host's.
func TestCopyOfARunningHostStops(t *testing.T) {
	p := newPast(t)
	clone := newHost(t, p.host.Config.Name)
	copyFolder(t, clone.folder(), p.copy)
	clone.start()
	p.stopsAsRolledBack(clone)
	m, _ := p.others[0].view().Member(p.host.id.ID)
	if m.Address != p.host.id.Address {
		t.Errorf("clone-moves-the-host: the others dial %s at %s, it is at %s", m.Name, m.Address, p.host.id.Address)
	}
	until(t, "the host itself goes on", func() bool { return led([]*host{p.host, p.others[0], p.others[1]}) != nil })
}
