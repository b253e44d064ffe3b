//go:build e2e

package attacktest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/raftstore"
	rafthost "github.com/trivet-ha/trivet/raftstore/host"
)

// foundAnew makes a stopped host the only member of its cluster, in a higher
// incarnation. Of the other members those named are lost.
func (h *host) foundAnew(lost ...string) {
	h.t.Helper()
	id, secrets, err := h.dir.Load()
	if err != nil {
		h.t.Fatal(err)
	}
	st, err := rafthost.Open(h.dir.RaftDir())
	if err != nil {
		h.t.Fatal(err)
	}
	old, err := rafthost.Replay(st)
	if err = errors.Join(err, st.Close()); err != nil {
		h.t.Fatal(err)
	}
	former := slices.DeleteFunc(old.State.View().MayRun(id.ID),
		func(f membership.FormerMember) bool { return slices.Contains(lost, f.Name) })
	err = old.State.Refound(fsm.Refound{Index: old.Last, UnixMillis: h.Wall().UnixMilli(), NewIncarnation: true,
		Survivor: id.ID, Former: former})
	if err != nil {
		h.t.Fatal(err)
	}
	v := old.State.View()
	ca, err := pki.ParseCA(v.Secrets().CACert, v.Secrets().CAKey)
	if err != nil {
		h.t.Fatal(err)
	}
	id.Incarnation = v.Incarnation()
	if secrets.Credentials, err = cluster.Issue(ca, pki.PeerIdentity(id.Cluster, id.ID, id.Incarnation), h.Wall(),
		rand.Reader); err != nil {
		h.t.Fatal(err)
	}
	_, err = h.dir.Replace("restore", h.Wall(), id, secrets, func(raftDir string) error {
		st, err := rafthost.Create(raftDir)
		if err != nil {
			return err
		}
		self := raftstore.Server{ID: id.ID, Address: cluster.ServerAddress(id.ID, id.Address), Voter: true}
		return errors.Join(rafthost.Seed(st, old.State, self), st.Close())
	}, func() error { return nil })
	if err != nil {
		h.t.Fatal(err)
	}
}

// joinsAnew makes a stopped host of before a founding a peer again and starts it.
func (h *host) joinsAnew(founder *host) {
	h.t.Helper()
	h.Replace = true
	h.joins(founder)
}

// superseded waits until a peer has ended because its cluster was founded again.
func (h *host) superseded() {
	h.t.Helper()
	var why error
	until(h.t, h.Config.Name+" ends", func() bool {
		select {
		case why = <-h.peer.Ended():
			return true
		default:
			return false
		}
	})
	if !errors.Is(why, app.ErrSuperseded) {
		h.t.Errorf("%s ended: %v", h.Config.Name, why)
	}
	h.stop()
}

// foundedAnew is a cluster of three that was founded again on the first while the
// second ran on and the third was down.
func foundedAnew(t *testing.T, lost ...string) []*host {
	t.Helper()
	hosts := newCluster(t, 3)
	until(t, "every peer has the whole state", func() bool {
		return !slices.ContainsFunc(hosts, func(h *host) bool { return len(h.view().Members()) != 3 })
	})
	hosts[0].stop()
	hosts[2].stop()
	hosts[0].foundAnew(lost...)
	hosts[0].start()
	until(t, "the founder leads", func() bool { return led(hosts[:1]) == hosts[0] })
	return hosts
}

// A cluster of three is founded again on one host while another runs on: that one is
// told, ends, and counts as heard only when it is gone. Both join anew by a token, with
// what they had before set aside.
func TestFoundedAnewAndJoined(t *testing.T) {
	hosts := foundedAnew(t)
	founder := hosts[0]
	hosts[1].superseded()
	until(t, "all former members are heard", func() bool { return founder.view().AwaitedFormers() == "" })
	if warned := fmt.Sprint(founder.peer.Status().Warnings); !strings.Contains(warned,
		"h2 ("+hosts[1].id.Address+") has not joined again") || strings.Contains(warned, "former_silent") {
		t.Errorf("status warns of %s", warned)
	}
	for _, h := range hosts[1:] {
		was := h.id
		h.joinsAnew(founder)
		if h.id.ID == was.ID || h.id.Incarnation != founder.view().Incarnation() || h.id.Name != was.Name ||
			h.id.Address != was.Address {
			t.Errorf("%+v joined as %+v", was, h.id)
		}
		old, err := filepath.Glob(filepath.Join(h.Config.DataDir, "before-join-*", "peer.json"))
		if err != nil || len(old) != 1 {
			t.Errorf("the old data is at %s: %v", old, err)
		}
	}
	until(t, "all vote", func() bool { return voters(founder) == 3 && len(founder.view().FormerMembers()) == 0 })
	founder.must(settings.PutSetting{Key: "after", Value: "yes"})
	until(t, "all peers have it", func() bool {
		return !slices.ContainsFunc(hosts, func(h *host) bool { _, ok := h.view().Setting("after"); return !ok })
	})
}

// A former member's certificate commands nobody before its host joined again, and
// after: also not at the path where v0.2.0 took it for a token.
func TestFormerCertificatesCommandNoPeer(t *testing.T) {
	hosts := foundedAnew(t)
	founder, former := hosts[0], hosts[2]
	hosts[1].superseded()
	old := newThief(t, former.cred)
	founder.refused(old, "a former member")
	former.joinsAnew(founder)
	until(t, "it votes", func() bool { return voters(founder) == 2 })
	for _, h := range []*host{founder, former} {
		h.refused(old, "a former member that has joined again")
		if status, err := old.call(h, http.MethodPost, cluster.PathRejoin); err == nil && status != http.StatusGone {
			t.Errorf("rejoin-refused: %s answers %d", h.Config.Name, status)
		}
	}
	if status, err := newThief(t, former.cred).call(
		founder, http.MethodGet, "/peer/v1/rights/"+former.id.ID); err != nil || status != http.StatusOK {
		t.Fatalf("its new certificate: %d, %v", status, err) // else a refusal above would prove nothing
	}
}

// A host that was named lost at the founding, or removed later, is refused as what it
// was, and joins anew by a token as any other.
func TestLostAndRemovedHostsJoinAnew(t *testing.T) {
	hosts := foundedAnew(t, "h3")
	founder := hosts[0]
	hosts[1].superseded()
	lost := newThief(t, hosts[2].cred)
	founder.refused(lost, "a lost member")
	for _, h := range hosts[1:] {
		h.joinsAnew(founder)
	}
	until(t, "all vote", func() bool { return voters(founder) == 3 && len(founder.view().FormerMembers()) == 0 })
	founder.refused(lost, "a lost member whose host joined anew")
	removed := newThief(t, hosts[1].cred)
	hosts[1].stop()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	until(t, "h2 is removed", func() bool { // on a busy host a leader may be lost meanwhile
		err := founder.peer.Admin().Membership.Remove(ctx, "h2", true)
		_, member := founder.view().Member(hosts[1].id.ID)
		return err == nil || !member
	})
	founder.refused(removed, "a removed member")
	hosts[1].joinsAnew(founder)
	until(t, "all vote again", func() bool { return voters(founder) == 3 })
	founder.refused(removed, "a removed member whose host joined anew")
}
