package fsm

import (
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// BenchmarkEvents compares the entries of a whole introspection with and without
// events: a cluster that has a member of an older log version records none.
func BenchmarkEvents(b *testing.B) {
	for _, version := range []int{1, 2} {
		b.Run(fmt.Sprintf("log-version=%d", version), func(b *testing.B) {
			r := sized(b, 1000)
			s := r.must(membership.OpenSession{Peer: "a", Boot: "b", Version: Version}).Token
			if version < 2 {
				r.must(membership.PutMember{Member: member("older")})
				r.older("older", version)
			}
			doc := pack(b, string(inventory(30_000)))
			b.ReportAllocs()
			for b.Loop() {
				r.apply(b, Header{Session: s},
					introspection.Start{Node: nodeA, Event: introspection.EventStart, Timeout: time.Hour})
				r.work(b, s, introspection.Advance{Event: introspection.EventWait, Consume: true})
				r.apply(b, Header{Session: s}, introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: doc})
				r.work(b, s, introspection.Advance{Event: introspection.EventProcess, Unprocessed: doc.Hash},
					introspection.Advance{Event: introspection.EventFinish, Processed: doc, Consume: true})
			}
		})
	}
}
