package fsm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/relays"
)

// relayFlood applies entries without the check after each: there are many.
type relayFlood struct {
	t      *testing.T
	state  *State
	index  uint64
	token  fencing.Token
	packer *blobs.Packer
	noise  *rand.ChaCha8 // which does not compress
}

func newRelayFlood(t *testing.T) *relayFlood {
	t.Helper()
	state, err := Founded(founding(), time.UnixMilli(1))
	if err != nil {
		t.Fatal(err)
	}
	packer, err := blobs.NewPacker(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &relayFlood{t: t, state: state, index: 1, packer: packer, noise: rand.NewChaCha8([32]byte{7})}
	f.token = f.do(Header{}, Lead{Peer: "a", Boot: "b"}).Token
	return f
}

func (f *relayFlood) do(h Header, c Command) Result {
	f.t.Helper()
	f.index++
	return f.state.Apply(Entry{Index: f.index, Term: 1, Data: encoded(f.t, h, c)})
}

// send accepts a document of so many bytes, each another one. The view must say
// beforehand what the state does.
func (f *relayFlood) send(source, node string, bytes int) Result {
	f.t.Helper()
	text := make([]byte, max(bytes, 8))
	if _, err := f.noise.Read(text); err != nil {
		f.t.Fatal(err)
	}
	doc, err := f.packer.Pack(text)
	if err != nil {
		f.t.Fatal(err)
	}
	accept := relays.Accept{Source: source, Node: node, Document: doc, Timeout: time.Minute}
	foreseen := f.state.View().RelayRoom(accept)
	res := f.do(Header{}, accept)
	if fmt.Sprint(foreseen) != fmt.Sprint(res.Err()) {
		f.t.Fatalf("the view says %v, the state %v", foreseen, res.Err())
	}
	return res
}

// fill sends until a document is refused and returns which were accepted.
func (f *relayFlood) fill(source, node string, bytes int) (accepted []fencing.Token) {
	f.t.Helper()
	for {
		res := f.send(source, node, bytes)
		if res.Code == QueueFull {
			return accepted
		}
		if len(accepted) > relays.MaxRelays {
			f.t.Fatalf("%d documents of %s are accepted", len(accepted), source)
		}
		accepted = append(accepted, relayedOf(f.t, res).Sequence)
	}
}

// take ends relays.
func (f *relayFlood) take(sequences ...fencing.Token) { f.settle(relays.OutcomeTaken, sequences...) }

func (f *relayFlood) settle(outcome relays.Outcome, sequences ...fencing.Token) {
	f.t.Helper()
	for _, sequence := range sequences {
		f.do(Header{Token: f.token}, relays.Try{Sequence: sequence})
		if res := f.do(Header{Token: f.token},
			relays.Settle{Sequence: sequence, Try: 1, Outcome: outcome, Reason: "because"}); res.Code != OK {
			f.t.Fatal(res)
		}
	}
}

func (f *relayFlood) check() {
	f.t.Helper()
	if err := f.state.View().Check(); err != nil {
		f.t.Error(err)
	}
}

// However much a source sends, in whatever size, it has its share; sources that
// name no known node have half of the room; and a known node finds room then.
func TestRelaysOfASourceAreBounded(t *testing.T) {
	const large = 2<<20 - 4<<10
	f := newRelayFlood(t)
	if n := len(f.fill("192.0.2.1/32", "", large)) * large; n > relays.MaxBytesOfSource ||
		n < relays.MaxBytesOfSource*3/4 {
		t.Errorf("source-share: one source has %d MiB", n>>20)
	}
	if n := len(f.fill("192.0.2.2/32", "", 8)); n != relays.MaxOfSource {
		t.Errorf("source-share: one source has %d documents", n)
	}
	all := 0
	for i := range 20 {
		all += len(f.fill(fmt.Sprintf("2001:db8:%d::/64", i), "", large)) * large
	}
	if all += relays.MaxBytesOfSource; all > relays.MaxBytesUnknown+large {
		t.Errorf("reserved-room: documents of unknown nodes take %d MiB", all>>20)
	}
	if res := f.send("192.0.2.3/32", nodeA, large); res.Code != OK {
		t.Errorf("reserved-room: a known node of another source: %+v", res)
	}
	f.check()
}

// All machines of a site may call from one network of IPv6, or from behind one NAT: those whose node
// Ironic's ports name have half of the room, and from then on an eighth is enough. What they take leaves
// the share of those that are not known as it is. Before log version 3 an eighth is all.
func TestRelaysOfASiteBehindOneNetwork(t *testing.T) {
	const size, site = 700 << 10, "2001:db8::/64"
	for version, most := range map[int]int{2: relays.MaxBytesOfSource, Version: relays.MaxBytes / 2} {
		f := newRelayFlood(t)
		m, _ := f.state.View().Member("a")
		m.Version = version
		f.do(Header{}, membership.PutMember{Member: m})
		var sent []fencing.Token
		for {
			res := f.send(site, nodeN(len(sent)), size)
			if res.Code != OK {
				break
			}
			sent = append(sent, relayedOf(t, res).Sequence)
		}
		if all := len(sent) * size; all > most || all < most-2*size {
			t.Errorf("site-share: log version %d: %d MiB of a site's nodes wait, want %d", version, all>>20, most>>20)
		}
		unknown := f.send(site, "", size).Code
		if (unknown == OK) != (version == Version) {
			t.Errorf("site-share: log version %d: a machine that is not known: %v", version, unknown)
		}
		if res := f.send("192.0.2.9/32", nodeA, size); res.Code != OK {
			t.Errorf("site-share: log version %d: a node of another source: %v", version, res.Err())
		}
		f.take(sent...)
		for n := range len(sent) / 2 {
			f.take(relayedOf(t, f.send(site, nodeN(len(sent)+n), size)).Sequence)
		}
		if _, kept := f.state.View().TakenRelayOf(nodeN(0)); kept != (version == Version) {
			t.Errorf("site-share: log version %d: that Ironic's data of the first node is kept is %v", version, kept)
		}
		f.check()
	}
}

// A stranger that knows a node's MAC has the room of one node.
func TestRelaysOfANodeAreBounded(t *testing.T) {
	f := newRelayFlood(t)
	small := f.fill("192.0.2.1/32", nodeA, 8)
	if len(small) != relays.MaxOfNode {
		t.Errorf("node-share: %d documents of one node", len(small))
	}
	f.take(small...)
	if n := len(f.fill("192.0.2.2/32", nodeA, 2<<20-4<<10)); n != 4 {
		t.Errorf("node-share: %d documents of 2 MiB of one node", n)
	}
	if _, there := f.state.View().Relay(small[0]); there {
		t.Error("the oldest that was taken has not made room")
	}
	if res := f.send("192.0.2.2/32", nodeB, 8); res.Code != OK {
		t.Errorf("another node: %+v", res)
	}
	f.check()
}

// The oldest that has ended makes room, of the share that is full.
func TestRelaysThatEndedMakeRoom(t *testing.T) {
	f := newRelayFlood(t)
	foreign := f.fill("192.0.2.9/32", "", 1<<20)
	f.take(foreign[0])
	mine := f.fill("192.0.2.1/32", "", 8)
	f.take(mine[7], mine[3])
	if res := f.send("192.0.2.1/32", "", 8); res.Code != OK {
		t.Errorf("in the place of one that was taken: %+v", res)
	}
	for sequence, want := range map[fencing.Token]bool{mine[3]: false, mine[7]: true, foreign[0]: true} {
		if _, there := f.state.View().Relay(sequence); there != want {
			t.Errorf("relay %v is there: %v, want %v", sequence, there, want)
		}
	}
	f.check()
}

// Whoever knows a MAC of a node pushes out nothing that Ironic took of it by what Ironic refuses,
// and not the newest by what waits. Below log version 3 the oldest goes, as v0.2.0 has it.
func TestRelaysThatWereTakenStay(t *testing.T) {
	for version, want := range map[int]string{2: "[]", Version: "[true true true]"} {
		f := newRelayFlood(t)
		m, _ := f.state.View().Member("a")
		m.Version = version
		f.do(Header{}, membership.PutMember{Member: m})
		var taken []fencing.Token
		for range 3 {
			taken = append(taken, relayedOf(t, f.send("192.0.2.1/32", nodeA, 8)).Sequence)
		}
		f.take(taken...)
		for range relays.MaxOfNode {
			f.settle(relays.OutcomeRefused, relayedOf(t, f.send("192.0.2.66/32", nodeA, 8)).Sequence)
		}
		kept := []bool{}
		for r := range f.state.View().RelaysOf(nodeA) {
			if r.State == relays.Taken {
				kept = append(kept, r.Sequence == taken[len(kept)])
			}
		}
		if fmt.Sprint(kept) != want {
			t.Errorf("taken-stays: log version %d: after documents that Ironic refused %v are kept, want %v", version, kept,
				want)
		}
		waiting := len(f.fill("192.0.2.66/32", nodeA, 8))
		newest, ok := f.state.View().TakenRelayOf(nodeA)
		if version == Version && (!ok || newest.Sequence != taken[2] || waiting != relays.MaxOfNode-1) {
			t.Errorf("newest-stays: next to %d that wait there is %+v", waiting, newest)
		}
		f.check()
	}
}
