package firewall

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
)

// GUIDs of InfiniBand ports, and what a gateway makes of them.
const (
	guidA, guidB = "7c:fe:90:03:00:29:26:52", "7c:fe:90:03:00:29:26:53"
	seenA, seenB = "a4:bf:01:00:00:0a", "a4:bf:01:00:00:0b"
)

// told is what a gateway has learned.
type told map[string]string

func (n told) Neighbours() map[string]string { return maps.Clone(map[string]string(n)) }

// infiniBand is a port that has a GUID.
func infiniBand(n int, guid string) fsm.Port {
	p := port(n)
	p.GUID = guid
	return p
}

// TestGateway follows ports, introspections and what the gateway learns, on a
// leader and on a follower: the lists name what the host sees, and they are
// written as a whole once.
func TestGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, chains, neighs := newRig(t), &counted{}, told{}
		lists := NewLists(chains, r, Policy{DenyUnknown: true}, 0, nil, slog.New(slog.DiscardHandler))
		lists.Through(neighs)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); lists.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		r.lead()
		want := func(what string, allow, deny []string) {
			t.Helper()
			synctest.Wait()
			slices.Sort(allow)
			deny = append(slices.Clone(deny), TestMAC)
			slices.Sort(deny)
			if got, err := chains.Read(ctx); err != nil || !got.Equal(Ruleset{Allow: allow, Deny: deny}) {
				t.Errorf("%s: the rules are %+v (%v), want %v allowed, %v denied", what, got, err, allow, deny)
			}
		}
		do := func(c fsm.Command) {
			t.Helper()
			if err := r.apply(r.token, c).Err(); err != nil {
				t.Fatal(err)
			}
		}
		put := func(ports ...fsm.Port) { do(fsm.PutGUIDPorts{Ports: ports}) }
		put(infiniBand(1, guidA), port(2), infiniBand(3, guidB))
		want("nothing learned", nil, []string{mac(1), mac(2), mac(3)})
		neighs[guidA] = seenA
		time.Sleep(gatewayEvery)
		want("learned by looking", nil, []string{seenA, mac(2), mac(3)})
		if got := lists.Behind(seenA); !slices.Equal(got, []string{mac(1)}) {
			t.Errorf("behind %s: %v", seenA, got)
		}
		neighs[guidB] = seenB
		do(fsm.StartIntrospection{Node: node(1), Event: fsm.EventStart, Timeout: time.Hour, Attributes: fsm.Attributes{MACs: []string{mac(1)}}})
		lists.Lead(r.token)
		want("a leader allows what it sees", []string{seenA}, []string{seenA, mac(2), mac(3)})
		do(fsm.StartIntrospection{Node: node(3), Event: fsm.EventStart, Timeout: time.Hour, Attributes: fsm.Attributes{MACs: []string{mac(3)}}})
		want("learned with a change", []string{seenA, seenB}, []string{seenA, mac(2), seenB})
		delete(neighs, guidA)
		time.Sleep(gatewayEvery)
		want("forgotten", []string{mac(1), seenB}, []string{mac(1), mac(2), seenB})
		put(infiniBand(3, guidA))
		want("another GUID", []string{mac(1), mac(3)}, []string{mac(1), mac(2), mac(3)})
		neighs[guidA] = seenA
		do(fsm.PutPorts{Remove: []string{port(1).ID}})
		want("one goes", []string{mac(1), seenA}, []string{mac(2), seenA})
		lists.Lead(0)
		want("a follower allows nobody", nil, []string{mac(2), seenA})
		if chains.replaced != 1 {
			t.Errorf("the rules were built %d times, want once", chains.replaced)
		}
	})
}

// TestGatewayExplained asks about the address that a gateway gave.
func TestGatewayExplained(t *testing.T) {
	b := newFakeStore(t)
	b.lists()
	h := b.leading()
	h.Behind = func(mac string) []string { return map[string][]string{seenA: {resting}}[mac] }
	b.explained(h, seenA, VerdictDrop, RuleBlacklist, map[Rule]string{RuleBlacklist: "port p2", RuleInterface: "an InfiniBand gateway made of " + resting})
	h.Files = true
	b.explained(h, resting, VerdictDrop, RuleBlacklist, map[Rule]string{RuleInterface: "files for dnsmasq"})
}

// TestEthoIB reads neighbours as the kernel shows them.
func TestEthoIB(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "class/net/eth2/eth")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := "SLAVE=ib0 EMAC=A4:BF:01:00:00:0A QPN=0x48 IMAC=80:00:02:08:fe:80:00:00:00:00:00:00:" + guidA + "\n" +
		"SLAVE=ib0 EMAC=a4:bf:01:00:00:0b IMAC=80:00:02:08:fe:80:00:00:00:00:00:00:7C:FE:90:03:00:29:26:53\n" +
		"EMAC=a4:bf:01:00:00:0c IMAC=short\nEMAC=none IMAC=" + guidA + "\nIMAC=" + guidA + "\n\n" +
		"EMAC=a4:bf:01:00:00:0d IMAC=" + guidA + "\n"
	if err := os.WriteFile(filepath.Join(dir, "neighs"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	e := NewEthoIB(root, []string{"absent", "eth2"}, slog.New(slog.DiscardHandler))
	for range 2 {
		if got, want := e.Neighbours(), (map[string]string{guidA: seenA, guidB: seenB}); !maps.Equal(got, want) {
			t.Errorf("neighbours %v, want %v", got, want)
		}
	}
}

// TestPullTellsGUIDs wants ports with a GUID in a command of their own, and the
// others in the one that every version knows.
func TestPullTellsGUIDs(t *testing.T) {
	if k := fsm.KindOf(command(fsm.PutPorts{Ports: []fsm.Port{port(1), infiniBand(2, guidA)}})); k != fsm.KindOf(fsm.PutGUIDPorts{}) {
		t.Errorf("a port with a GUID is put by %v", k)
	}
	if k := fsm.KindOf(command(fsm.PutPorts{Ports: []fsm.Port{port(1)}})); k != fsm.KindOf(fsm.PutPorts{}) {
		t.Errorf("an ordinary port is put by %v", k)
	}
}
