package eventring

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/fsm/codec"
)

// The ring drops whole segments, oldest first, and says up to where. It is the same
// on a peer that read a snapshot in between.
func TestEventRingIsBounded(t *testing.T) {
	for name, c := range map[string]struct{ events, body int }{
		"by number": {MaxEvents + 3*perSegment, 100},
		"by bytes":  {MaxBytes/7000 + 3*perSegment, 7000},
	} {
		t.Run(name, func(t *testing.T) {
			ring := &Ring{}
			body := bytes.Repeat([]byte{1}, c.body)
			kept := *ring
			for i := range c.events {
				ring.keep(Stored{id: ID{Index: uint64(i + 1)}, topic: TopicLease, body: body})
				if i == c.events/2 {
					kept = *ring
				}
			}
			first, last := ID{}, ID{}
			for e := range ring.After(ID{}) {
				if first.IsZero() {
					first = e.id
				}
				last = e.id
			}
			count, size := ring.Size()
			switch {
			case count > MaxEvents || size > MaxBytes:
				t.Errorf("%d events of %d bytes are kept", count, size)
			case count < MaxEvents-2*perSegment && size < MaxBytes-2*perSegment*maxBody:
				t.Errorf("only %d events of %d bytes are kept", count, size)
			case last.Index != uint64(c.events) || first.Index != ring.dropped.Index+1 || int(last.Index-first.Index)+1 != count:
				t.Errorf("%d events, the first is %v, the last %v, forgotten is %v", count, first, last, ring.dropped)
			}
			if last := kept.Last(); last.Index != uint64(c.events/2)+1 {
				t.Errorf("an older copy of the ring ends with event %v", last)
			}
		})
	}
}

// TestEventRingAsAList compares the ring with a list of all events, through
// snapshots, and with copies that went on differently.
func TestEventRingAsAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []ID
		ring := Ring{}
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			for range rapid.IntRange(0, 3*perSegment).Draw(t, "events") {
				id := ID{Incarnation: 1, Index: uint64(len(all)/2 + 1), Seq: uint32(len(all) % 2)}
				if last := ring.Last(); !last.IsZero() && rapid.Bool().Draw(t, "new incarnation") && last.Seq == 1 &&
					rapid.IntRange(0, 40).Draw(t, "seldom") == 0 {
					id.Incarnation++
				}
				if n := len(all); n > 0 {
					id.Incarnation = max(id.Incarnation, all[n-1].Incarnation)
				}
				fork := ring
				fork.keep(Stored{id: id, body: []byte("another history")})
				ring.keep(Stored{id: id, body: []byte{0xA0}}) // must not change the fork, nor be changed by it
				if last := fork.open; len(last) > 0 && string(last[len(last)-1].body) != "another history" {
					t.Fatalf("event %v of a copy was overwritten", id)
				}
				all = append(all, id)
			}
			after := ID{Incarnation: rapid.Uint64Range(0, 3).Draw(t, "incarnation"),
				Index: rapid.Uint64Range(0, uint64(len(all)+2)).Draw(t, "index"), Seq: rapid.Uint32Range(0, 2).Draw(t, "seq")}
			var want, got, reversed []ID
			for _, id := range all {
				if id.Compare(after) > 0 {
					want = append(want, id)
				}
			}
			for e := range ring.After(after) {
				got = append(got, e.id)
			}
			for e := range ring.Newest() {
				reversed = append(reversed, e.id)
			}
			slices.Reverse(reversed)
			if !slices.Equal(got, want) || !slices.Equal(reversed, all) {
				t.Fatalf("after %v: %v, want %v; backwards %v", after, got, want, reversed)
			}
		}
	})
}

// The memory of a full ring stays below 32 MB: with events as introspections make
// them, and with the longest texts.
func TestEventRingMemory(t *testing.T) {
	for name, body := range map[string][]byte{
		"steps of introspections": codec.Marshal(
			Event{Topic: TopicIntrospection, Action: "processing", Millis: 1_700_000_000_000, Peer: "h1",
				Node: "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10", Fields: Fields("cause", "process", "from", "waiting")}),
		"long texts": codec.Marshal(
			Event{Topic: TopicAudit, Action: "call", Millis: 1_700_000_000_000, Peer: "h1", Text: strings.Repeat("x", MaxText)}),
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var ring Ring
		for i := range MaxEvents + 10*perSegment {
			ring.keep(Stored{id: ID{Incarnation: 1, Index: uint64(i)}, topic: TopicAudit, body: append([]byte(nil), body...)})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		used := int64(after.HeapAlloc) - int64(before.HeapAlloc)
		t.Logf("%s: %d events of %d bytes take %.1f MB", name, ring.count, ring.bytes, float64(used)/1e6)
		if used > 32_000_000 {
			t.Errorf("%s: %d events of %d bytes take %d bytes, at most are allowed 32,000,000", name, ring.count, ring.bytes,
				used)
		}
		runtime.KeepAlive(ring)
	}
}

// What goes into the log is text, in each of its parts.
func TestReportsAreText(t *testing.T) {
	fits := Report{Topic: TopicFilter, Action: "drifted", Text: "One.", Fields: map[string]string{"by": "nft"}}
	if err := fits.Validate(); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(r *Report){
		"action": func(r *Report) { r.Action = "No Word" }, "no text": func(r *Report) { r.Text = "" },
		"text":  func(r *Report) { r.Text = "\xff" },
		"field": func(r *Report) { r.Fields = map[string]string{"by": "\xff"} },
		"name":  func(r *Report) { r.Fields = map[string]string{"No Word": "nft"} },
		"node":  func(r *Report) { r.Node = "n1" },
	} {
		r := fits
		change(&r)
		if r.Validate() == nil {
			t.Errorf("report: %s is taken: %+v", what, r)
		}
	}
}
