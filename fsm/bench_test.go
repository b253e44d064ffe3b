package fsm

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/settings"
)

// BenchmarkApply measures one entry at sizes a hundred times apart: the cost
// must follow the change, not the site (promise 10).
func BenchmarkApply(b *testing.B) {
	for _, nodes := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			r := sized(b, nodes)
			s := r.must(membership.OpenSession{Peer: "a", Boot: "b", Version: Version}).Token
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				id := entry.NextRequestID(RequestID{}, Time(i)*Time(time.Microsecond),
					[8]byte{byte(i >> 16), byte(i >> 8), byte(i)})
				r.apply(b, Header{Session: s, Request: id, Answered: id}, settings.PutSetting{Key: "k", Value: "v"})
			}
		})
	}
}

// BenchmarkCallback measures the four entries of a callback that is processed:
// queued with its document, claimed, begun, finished. A site has as many nodes
// that ended before and wait for their expiry.
func BenchmarkCallback(b *testing.B) {
	for _, nodes := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			r := sized(b, nodes)
			for i := range nodes {
				r.process(b, nodeN(i), pack(b, fmt.Sprint("earlier ", i)))
			}
			s := r.must(membership.OpenSession{Peer: "a", Boot: "b", Version: Version}).Token
			doc := pack(b, string(inventory(30_000)))
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				r.apply(b, Header{}, introspection.Start{Node: nodeA, Event: introspection.EventStart, Timeout: time.Hour})
				r.work(b, s, introspection.Advance{Event: introspection.EventWait, Consume: true})
				b.StartTimer()
				r.apply(b, Header{}, introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: doc})
				r.work(b, s, introspection.Advance{Event: introspection.EventProcess, Unprocessed: doc.Hash},
					introspection.Advance{Event: introspection.EventFinish, Processed: doc, Consume: true})
			}
		})
	}
}

// apply commits one entry without checking the invariants.
func (r *rig) apply(b testing.TB, h Header, c Command) Result {
	r.index++
	res := r.state.Apply(Entry{Index: r.index, Term: 2, Data: encoded(b, h, c)})
	if res.Code != OK {
		b.Fatal(res.Message)
	}
	return res
}

// work claims the only request that is ready and does the steps.
func (r *rig) work(b testing.TB, session fencing.Token, steps ...introspection.Advance) {
	var requests []fencing.Token
	for q := range r.view().Ready() {
		requests = append(requests, q.Sequence)
	}
	var got introspection.Claimed
	if err := r.apply(
		b, Header{Session: session}, introspection.ClaimRequests{Requests: requests}).Decode(&got); err != nil {
		b.Fatal(err)
	}
	for _, step := range steps {
		step.Claim = got.Claims[0].Claim.Hold()
		r.apply(b, Header{Session: session}, step)
	}
}

// process takes a waiting node to its end.
func (r *rig) process(b testing.TB, node string, doc blobs.Packed) {
	s := r.apply(b, Header{}, membership.OpenSession{Peer: "a", Boot: "b", Version: Version}).Token
	r.apply(b, Header{}, introspection.Enqueue{Node: node, Event: introspection.EventProcess, Document: doc})
	r.work(b, s, introspection.Advance{Event: introspection.EventProcess, Unprocessed: doc.Hash},
		introspection.Advance{Event: introspection.EventFinish, Consume: true})
}

// inventory makes a document of about so many bytes that looks like one of a
// ramdisk: repetitive keys, values that are not.
func inventory(size int) []byte {
	var out bytes.Buffer
	for i := 0; out.Len() < size; i++ {
		sum := blobs.HashOf([]byte(fmt.Sprint(i)))
		fmt.Fprintf(&out,
			`{"name":"eth%d","mac_address":"52:54:00:%02x:%02x:%02x","ipv4_address":"10.%d.%d.%d","has_carrier":true,"lldp":[[1,"04%x"],[2,"%x"]],"vendor":"0x8086","client_id":null},`,
			i, sum[0], sum[1], sum[2], sum[3], sum[4], sum[5], sum[6:12], sum[12:20])
	}
	return out.Bytes()
}

func BenchmarkPack(b *testing.B) {
	document := inventory(30_000)
	packer, err := blobs.NewPacker(1, nil)
	if err != nil {
		b.Fatal(err)
	}
	packed, err := packer.Pack(document)
	if err != nil {
		b.Fatal(err)
	}
	run := func(name string, do func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(document)))
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(packed.Data)), "packed-bytes")
		})
	}
	blob := blobs.Blob{Hash: packed.Hash, Data: packed.Data}
	run("packer", func() error { _, err := packer.Pack(document); return err })
	run("one", func() error { _, err := blobs.Pack(document); return err })
	run("unpack packer", func() error { _, err := packer.Unpack(blob); return err })
	run("unpack one", func() error { _, err := blob.Document(); return err })
}

// sized makes a state with so many waiting nodes.
func sized(b testing.TB, nodes int) *rig {
	r := newRig(b)
	for i := range nodes {
		mac := fmt.Sprintf("52:54:00:%02x:%02x:%02x", i>>16, i>>8&255, i&255)
		r.apply(b, Header{}, introspection.Start{Node: nodeN(i), Event: introspection.EventAdopt, Timeout: time.Hour,
			Attributes: introspection.Attributes{MACs: []string{mac}}})
	}
	return r
}

func BenchmarkCheck(b *testing.B) {
	r := sized(b, 10_000)
	for b.Loop() {
		if err := r.view().Check(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	r := sized(b, 10_000)
	for b.Loop() {
		r.view().Hash()
	}
}
