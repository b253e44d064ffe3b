//go:build e2e

package attacktest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
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
	former := slices.DeleteFunc(old.State.View().MayRun(id.ID), func(f fsm.FormerMember) bool { return slices.Contains(lost, f.Name) })
	err = old.State.Refound(fsm.Refound{Index: old.Last, UnixMillis: h.Wall().UnixMilli(), NewIncarnation: true, Survivor: id.ID, Former: former})
	if err != nil {
		h.t.Fatal(err)
	}
	v := old.State.View()
	ca, err := pki.ParseCA(v.Secrets().CACert, v.Secrets().CAKey)
	if err != nil {
		h.t.Fatal(err)
	}
	id.Incarnation = v.Incarnation()
	if secrets.Credentials, err = cluster.Issue(ca, pki.PeerIdentity(id.Cluster, id.ID, id.Incarnation), h.Wall(), rand.Reader); err != nil {
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

// rejoins makes a stopped host of before a founding a peer again and starts it.
func (h *host) rejoins() *datadir.Rejoined {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), limit)
	defer cancel()
	made, err := h.Rejoin(ctx, h.dir)
	if err != nil {
		h.t.Fatalf("%s rejoins: %v", h.Config.Name, err)
	}
	h.start()
	return made
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
// told, ends, and counts as heard only when it is gone. Both rejoin without a token.
func TestFoundedAnewAndRejoined(t *testing.T) {
	hosts := foundedAnew(t)
	founder := hosts[0]
	hosts[1].superseded()
	until(t, "all former members are heard", func() bool { return founder.view().AwaitedFormers() == "" })
	if warned := fmt.Sprint(founder.peer.Status().Warnings); !strings.Contains(warned, "h2 ("+hosts[1].id.Address+") has not rejoined") || strings.Contains(warned, "former_silent") {
		t.Errorf("status warns of %s", warned)
	}
	for _, h := range hosts[1:] {
		was := h.id.ID
		made := h.rejoins()
		if made.ID == was || made.Incarnation <= 1 || made.Was != 1 || made.Name != h.Config.Name {
			t.Errorf("%s rejoined as %+v", was, made)
		}
		if _, _, err := datadir.Peek(made.Aside); err == nil || !strings.Contains(made.Aside, "before-rejoin-") {
			t.Errorf("the old data is at %s: %v", made.Aside, err)
		}
	}
	until(t, "all vote", func() bool { return voters(founder) == 3 && len(founder.view().FormerMembers()) == 0 })
	founder.must(fsm.PutSetting{Key: "after", Value: "yes"})
	until(t, "all peers have it", func() bool {
		return !slices.ContainsFunc(hosts, func(h *host) bool { _, ok := h.view().Setting("after"); return !ok })
	})
	for _, h := range hosts[1:] {
		h.stop()
		_, err := h.Rejoin(t.Context(), h.dir)
		if !errors.Is(err, datadir.ErrNoFounder) || errors.Is(err, datadir.ErrHasRejoined) || !strings.Contains(err.Error(), fmt.Sprintf("%s: its peer lives in incarnation %d", founder.id.Address, founder.view().Incarnation())) {
			t.Errorf("rejoin-names-answers: %s rejoins once more: %v", h.Config.Name, err)
		}
	}
}

// Where only peers answer that were left behind as well, a rejoin fails and says
// what each member answered.
func TestRejoinAmongOldPeersFails(t *testing.T) {
	hosts := newCluster(t, 3)
	until(t, "every peer has the whole state", func() bool {
		return !slices.ContainsFunc(hosts, func(h *host) bool { return len(h.view().Members()) != 3 })
	})
	hosts[0].stop() // the founder to be
	hosts[2].stop()
	_, err := hosts[2].Rejoin(t.Context(), hosts[2].dir)
	if !errors.Is(err, datadir.ErrNoFounder) || errors.Is(err, datadir.ErrHasRejoined) {
		t.Fatalf("rejoin-names-answers: %v", err)
	}
	for _, want := range []string{"this host is of incarnation 1", hosts[1].id.Address + ": its peer lives in incarnation 1", hosts[0].id.Address + ":"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("rejoin-names-answers: it does not say %q: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("it is of several lines: %v", err)
	}
}

// A former member's certificate commands nobody before its host rejoined, while it
// rejoins, and after.
func TestFormerCertificatesCommandNoPeer(t *testing.T) {
	hosts := foundedAnew(t)
	founder, former := hosts[0], hosts[2]
	hosts[1].superseded()
	old := newThief(t, former.cred)
	founder.refused(old, "a former member that may rejoin")
	made := former.rejoins()
	until(t, "it votes", func() bool { return voters(founder) == 2 })
	for _, h := range []*host{founder, former} {
		h.refused(old, "a former member that has rejoined")
	}
	if status, err := newThief(t, former.cred).call(founder, http.MethodGet, "/peer/v1/rights/"+made.ID); err != nil || status != http.StatusOK {
		t.Fatalf("its new certificate: %d, %v", status, err) // else a refusal above would prove nothing
	}
	former.stolen(t, founder, old, http.StatusUnauthorized)
}

// stolen wants that a thief of a former member's certificate and key cannot rejoin.
func (h *host) stolen(t *testing.T, at *host, by *thief, status int) {
	t.Helper()
	key, err := pki.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r := cluster.Rejoiner{Old: by.end.Credentials(), Key: key, Joiner: cluster.Joiner{
		Name: h.Config.Name, Address: h.id.Address, Gossip: h.id.Gossip, Version: fsm.Version, Wall: h.Wall, Random: rand.Reader,
	}}
	before := len(at.view().Members())
	_, err = r.Rejoin(t.Context(), at.id.Address, at.view().Incarnation())
	var refused *cluster.JoinError
	if !errors.As(err, &refused) || refused.Status != status {
		t.Errorf("rejoin-refused: a stolen certificate of %s: %v, want %d", h.Config.Name, err, status)
	}
	if now := len(at.view().Members()); now != before {
		t.Errorf("rejoin-refused: %d members, %d before", now, before)
	}
}

// A member that was named lost, or removed later, cannot rejoin; a stolen
// certificate cannot be used a second time, also before the host's own new identity
// was used.
func TestWhoMayNotRejoin(t *testing.T) {
	hosts := foundedAnew(t, "h3")
	founder := hosts[0]
	hosts[1].superseded()
	lost := newThief(t, hosts[2].cred)
	founder.refused(lost, "a lost member")
	hosts[2].stolen(t, founder, lost, http.StatusUnauthorized)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var refused *cluster.JoinError
	if _, err := hosts[2].Rejoin(ctx, hosts[2].dir); !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
		t.Errorf("a lost member's own host: %v", err)
	}

	thief := newThief(t, hosts[1].cred)
	if _, err := hosts[1].Rejoin(ctx, hosts[1].dir); err != nil { // not started
		t.Fatal(err)
	}
	hosts[1].stolen(t, founder, thief, http.StatusConflict)
	hosts[1].start()
	until(t, "the former member's record ends", func() bool { return len(founder.view().FormerMembers()) == 0 })
	hosts[1].stolen(t, founder, thief, http.StatusUnauthorized)

	removed := newThief(t, hosts[1].cred)
	hosts[1].stop()
	if err := founder.peer.Admin().Membership.Remove(ctx, "h2", true); err != nil {
		t.Fatal(err)
	}
	hosts[1].stolen(t, founder, removed, http.StatusBadRequest) // a certificate of this incarnation
}

// A rejoin that was killed after the cluster had admitted the host, and before the
// host had written it down, is repeated and gets the same identity.
func TestRejoinThatWasKilledIsRepeated(t *testing.T) {
	hosts := foundedAnew(t)
	founder, host := hosts[0], hosts[2]
	hosts[1].superseded()
	founder.stop()
	if _, err := host.Rejoin(t.Context(), host.dir); !errors.Is(err, datadir.ErrNoFounder) { // its key is kept
		t.Fatalf("without a founder: %v", err)
	}
	before := t.TempDir()
	if err := os.CopyFS(before, os.DirFS(host.dir.PeerDir())); err != nil {
		t.Fatal(err)
	}
	founder.start()
	until(t, "the founder leads", func() bool { return led(hosts[:1]) == founder })
	var first *datadir.Rejoined
	until(t, "the founder, which has its duties to begin, admits the host", func() (admitted bool) {
		var err error
		first, err = host.Rejoin(t.Context(), host.dir)
		return err == nil
	})
	if _, err := host.Rejoin(t.Context(), host.dir); !errors.Is(err, datadir.ErrHasRejoined) {
		t.Errorf("rejoin-repeated: a host that was admitted and not started: %v", err)
	}
	if err := os.RemoveAll(host.dir.PeerDir()); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(host.dir.PeerDir(), os.DirFS(before)); err != nil {
		t.Fatal(err)
	}
	if again := host.rejoins(); again.ID != first.ID {
		t.Errorf("rejoin-repeated: it is %s, the first time it was %s", again.ID, first.ID)
	}
	until(t, "it votes", func() bool { return voters(founder) == 2 && len(founder.view().Members()) == 2 })
}
