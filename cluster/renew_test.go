package cluster

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

const renewDay = 24 * time.Hour

// renewalAt returns the renewal of a peer whose certificate was issued at one
// moment, by a host whose clock shows another now, and what its log says.
func (f *fixture) renewalAt(t *testing.T, peer string, issued, now time.Time) (*Renewal, *strings.Builder) {
	t.Helper()
	cred, err := Issue(f.ca, pki.PeerIdentity(clusterID, peer, 1), issued, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	said := new(strings.Builder)
	save := func(*pki.Credentials) error { return nil }
	return NewRenewal(cred, save, func() time.Time { return now }, rand.Reader, slog.New(slog.NewTextHandler(said, nil))),
		said
}

func goodAt(c *pki.Credentials, at time.Time) bool {
	return !at.Before(c.Leaf.NotBefore) && !at.After(c.Leaf.NotAfter)
}

// A certificate is replaced in the last third of its life and before it begins,
// and the new one is good by the clock of now and by the one that made the old one.
func TestCertificatesAreRenewed(t *testing.T) {
	f := newFixture(t)
	now := time.Now()
	for _, c := range []struct {
		name    string
		issued  time.Duration // before now
		renewed bool
		warned  bool
	}{
		{"young", 19 * renewDay, false, false},
		{"two thirds through", 20*renewDay + time.Second, true, false},
		{"expired", 60 * renewDay, true, false},
		{"made by a clock 12 hours ahead", -12 * time.Hour, false, false},
		{"made by a clock 60 days ahead, or read by one behind", -60 * renewDay, true, true},
		{"made by a clock 300 days ahead, or read by one behind", -300 * renewDay, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, said := f.renewalAt(t, "h1", now.Add(-c.issued), now)
			old := r.Credentials()
			if err := r.renewIfDue(f.View()); err != nil {
				t.Fatal(err)
			}
			own := r.Credentials()
			if renewed := own != old; renewed != c.renewed {
				t.Fatalf("renewed: %v; the certificate is valid from %v to %v", renewed, own.Leaf.NotBefore, own.Leaf.NotAfter)
			}
			if !goodAt(own, now) {
				t.Errorf("the certificate is valid from %v to %v, the time is %v", own.Leaf.NotBefore, own.Leaf.NotAfter, now)
			}
			for at := now.Add(-c.issued); at.Before(old.Leaf.NotAfter); at = at.Add(renewDay) {
				if !goodAt(own, at) {
					t.Fatalf("the old certificate is good at %v, the new one from %v to %v", at, own.Leaf.NotBefore, own.Leaf.NotAfter)
				}
			}
			if warned := strings.Contains(said.String(), "not valid yet"); warned != c.warned {
				t.Errorf("warned of a certificate of the future: %v\n%s", warned, said)
			}
			if err := r.renewIfDue(f.View()); err != nil || r.Credentials() != own {
				t.Errorf("the new certificate is renewed at once: %v", err)
			}
		})
	}
}

// A certificate that a clock years ahead made in the place of another begins where
// that one began, and is valid by the clock that was set back. It is replaced at
// once by one of the usual life: it would else be renewed when the wrong clock says.
func TestCertificateOfAClockYearsAheadIsReplaced(t *testing.T) {
	f := newFixture(t)
	now := time.Now()
	for _, ahead := range []time.Duration{400 * renewDay, 3 * 365 * renewDay, 9 * 365 * renewDay} {
		clock := now
		r, _ := f.renewalAt(t, "h1", now.Add(-10*renewDay), now)
		r.wall = func() time.Time { return clock }
		clock = now.Add(ahead)
		if err := r.renewIfDue(f.View()); err != nil {
			t.Fatal(err)
		}
		wrong := r.Credentials()
		clock = now
		if !goodAt(wrong, now) || !goodAt(wrong, now.Add(ahead)) {
			t.Fatalf("made by a clock %v ahead: valid from %v to %v", ahead, wrong.Leaf.NotBefore, wrong.Leaf.NotAfter)
		}
		if err := r.renewIfDue(f.View()); err != nil {
			t.Fatal(err)
		}
		own := r.Credentials()
		if own == wrong || !goodAt(own, now) || own.Leaf.NotAfter.After(now.Add(pki.MaxTTL)) {
			t.Errorf("years-ahead-renewed: made by a clock %v ahead, and the clock set back: replaced %v, valid from %v to %v",
				ahead, own != wrong, own.Leaf.NotBefore, own.Leaf.NotAfter)
		}
		if err := r.renewIfDue(f.View()); err != nil || r.Credentials() != own {
			t.Errorf("the new certificate is renewed at once: %v", err)
		}
	}
}

// No certificate outlives the CA: near its end nothing better can be had.
func TestCertificatesThatEndWithTheCAAreKept(t *testing.T) {
	f := newFixture(t)
	now := f.ca.Certificate().NotAfter.Add(-5 * renewDay)
	r, _ := f.renewalAt(t, "h1", now.Add(-renewDay), now)
	old := r.Credentials()
	if err := r.renewIfDue(f.View()); err != nil || r.Credentials() != old {
		t.Errorf("the certificate was renewed, error %v", err)
	}
}

// After a start without a quorum the state is that of a snapshot, which may be
// older than the peer's own join: the peer renews. A removed peer does not.
func TestRenewalNeedsTheCAAndNoRemoval(t *testing.T) {
	f := newFixture(t)
	now := time.Now()
	r, _ := f.renewalAt(t, "h2", now.Add(60*renewDay), now)
	if err := r.renewIfDue(f.View()); err != nil {
		t.Errorf("a peer that its snapshot does not know: %v", err)
	}

	index := f.state.View().Index()
	for _, c := range []fsm.Command{
		membership.PutMember{Member: membership.Member{ID: "h2", Name: "h2", Address: "127.0.0.1:7352",
			Version: fsm.Version}},
		membership.RemoveMember{ID: "h2", Force: true},
	} {
		data, err := fsm.Encode(fsm.Header{}, c)
		if err != nil {
			t.Fatal(err)
		}
		index++
		if res := f.state.Apply(fsm.Entry{Index: index, Term: 1, Data: data}); res.Err() != nil {
			t.Fatal(res.Err())
		}
	}
	if err := r.Renew(f.View()); !errors.Is(err, ErrRemovedPeer) {
		t.Errorf("a removed peer: %v", err)
	}
	if err := r.Renew(fsm.New().View()); !errors.Is(err, errNoCA) {
		t.Errorf("a peer without a log: %v", err)
	}
}
