package fsm

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkApply measures one entry at sizes a hundred times apart: the cost
// must follow the change, not the site (promise 10).
func BenchmarkApply(b *testing.B) {
	for _, nodes := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			r := sized(b, nodes)
			s := r.must(OpenSession{Peer: "a", Boot: "b", Version: 1}).Token
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				id := NextRequestID(RequestID{}, Time(i)*Time(time.Microsecond), [8]byte{byte(i >> 16), byte(i >> 8), byte(i)})
				data := entry(b, Header{Session: s, Request: id, Answered: id}, PutSetting{Key: "k", Value: "v"})
				r.index++
				if res := r.state.Apply(Entry{Index: r.index, Term: 2, Data: data}); res.Code != OK {
					b.Fatal(res.Message)
				}
			}
		})
	}
}

// sized makes a state with so many nodes, each with a document.
func sized(b testing.TB, nodes int) *rig {
	r := newRig(b)
	for i := range nodes {
		for _, c := range []Command{
			StartIntrospection{Node: nodeN(i), Event: EventAdopt, Timeout: time.Hour, Attributes: Attributes{MACs: []string{fmt.Sprintf("52:54:00:%02x:%02x:%02x", i>>16, i>>8&255, i&255)}}},
		} {
			r.index++
			if res := r.state.Apply(Entry{Index: r.index, Term: 2, Data: entry(b, Header{}, c)}); res.Code != OK {
				b.Fatal(res.Message)
			}
		}
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
