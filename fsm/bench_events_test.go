package fsm

import (
	"fmt"
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
