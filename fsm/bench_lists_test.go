package fsm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/trivet-ha/trivet/fsm/ironicports"
)

// sizedPorts makes a state with so many ports.
func sizedPorts(b testing.TB, n int) *rig {
	r := newRig(b)
	r.apply(b, Header{}, Lead{Peer: "a", Boot: "b"})
	for from := 0; from < n; from += 100 {
		r.apply(b, Header{Token: r.view().Leadership().Token}, ironicports.PutPorts{Ports: portsN(from, 100)})
	}
	return r
}

// BenchmarkPutPorts measures an entry of one change and a full one, at sizes a
// hundred times apart: a port moves from one MAC to another and back.
func BenchmarkPutPorts(b *testing.B) {
	for _, ports := range []int{1000, 100_000} {
		for _, changes := range []int{1, ironicports.MaxPortChanges} {
			b.Run(fmt.Sprintf("ports=%d/changes=%d", ports, changes), func(b *testing.B) {
				r := sizedPorts(b, ports)
				here := portsN(0, changes)
				there := slices.Clone(here)
				for i := range there {
					there[i].MAC = macN(1<<23 + i)
				}
				h := Header{Token: r.view().Leadership().Token}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					r.apply(b, h, ironicports.PutPorts{Ports: [][]ironicports.Port{there, here}[i%2]})
				}
			})
		}
	}
}

// BenchmarkChangedSince measures what a programmer asks after every entry.
func BenchmarkChangedSince(b *testing.B) {
	r := sizedPorts(b, 100_000)
	for _, entries := range []uint64{0, 1, 10} {
		b.Run(fmt.Sprintf("changes=%d", 100*entries), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if macs, ok := r.view().PortsChangedSince(r.index - entries); !ok || len(macs) != int(100*entries) {
					b.Fatal(len(macs), ok)
				}
			}
		})
	}
}

// BenchmarkDeniedMACs reads the whole blacklist.
func BenchmarkDeniedMACs(b *testing.B) {
	r := sizedPorts(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for range r.view().DeniedMACs() {
			n++
		}
		if n != 10_000 {
			b.Fatal(n)
		}
	}
}
