package fsm

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// BenchmarkEvents compares the entries of a whole introspection with and without
// events: a cluster that has a member of an older log version records none.
func BenchmarkEvents(b *testing.B) {
	for _, version := range []int{1, 2} {
		b.Run(fmt.Sprintf("log-version=%d", version), func(b *testing.B) {
			r := sized(b, 1000)
			s := r.must(OpenSession{Peer: "a", Boot: "b", Version: Version}).Token
			if version < 2 {
				r.must(PutMember{Member: member("older")})
				r.older("older", version)
			}
			doc := pack(b, string(inventory(30_000)))
			b.ReportAllocs()
			for b.Loop() {
				r.apply(b, Header{Session: s}, StartIntrospection{Node: nodeA, Event: EventStart, Timeout: time.Hour})
				r.work(b, s, Advance{Event: EventWait, Consume: true})
				r.apply(b, Header{Session: s}, Enqueue{Node: nodeA, Event: EventProcess, Document: doc})
				r.work(b, s, Advance{Event: EventProcess, Unprocessed: doc.Hash}, Advance{Event: EventFinish, Processed: doc, Consume: true})
			}
		})
	}
}

// The memory of a full ring stays below 32 MB: with events as introspections make
// them, and with the longest texts.
func TestEventRingMemory(t *testing.T) {
	for name, body := range map[string][]byte{
		"steps of introspections": marshal(ClusterEvent{Topic: TopicIntrospection, Action: "processing", Millis: 1_700_000_000_000, Peer: "h1", Node: nodeA, Fields: fields("cause", "process", "from", "waiting")}),
		"long texts":              marshal(ClusterEvent{Topic: TopicAudit, Action: "call", Millis: 1_700_000_000_000, Peer: "h1", Text: strings.Repeat("x", MaxEventText)}),
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var ring eventRing
		for i := range MaxEvents + 10*eventsPerSegment {
			ring.add(storedEvent{ID: EventID{Incarnation: 1, Index: uint64(i)}, topic: TopicAudit, body: append([]byte(nil), body...)})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		used := int64(after.HeapAlloc) - int64(before.HeapAlloc)
		t.Logf("%s: %d events of %d bytes take %.1f MB", name, ring.count, ring.size, float64(used)/1e6)
		if used > 32_000_000 {
			t.Errorf("%s: %d events of %d bytes take %d bytes, at most are allowed 32,000,000", name, ring.count, ring.size, used)
		}
		runtime.KeepAlive(ring)
	}
}
