//go:build e2e

package nftables

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
)

// measured runs a benchmark and reports CPU time beside the time it took.
func measured(b *testing.B, op func(i int)) {
	b.Helper()
	before := cpu(b)
	i := 0
	for ; b.Loop(); i++ {
		op(i)
	}
	b.ReportMetric(float64(cpu(b)-before)/float64(i), "cpu-ns/op")
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func BenchmarkReplace(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000, maxMACs} {
		b.Run(fmt.Sprintf("%d MACs", n), func(b *testing.B) {
			h := newHost(b)
			c := h.chains(h.filter(firewall.MatchEther))
			r := firewall.Ruleset{Deny: numbered(n)}
			measured(b, func(int) { h.must(c.Replace(b.Context(), r)) })
		})
	}
}

func BenchmarkRead(b *testing.B) {
	for _, n := range []int{1000, 10_000, maxMACs} {
		b.Run(fmt.Sprintf("%d MACs", n), func(b *testing.B) {
			h := newHost(b)
			c := h.chains(h.filter(firewall.MatchEther))
			h.must(c.Replace(b.Context(), firewall.Ruleset{Deny: numbered(n)}))
			measured(b, func(int) {
				_, err := c.Read(b.Context())
				h.must(err)
			})
		})
	}
}

// BenchmarkChange takes one MAC off a long list and puts it back.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("%d MACs", n), func(b *testing.B) {
			h := newHost(b)
			c := h.chains(h.filter(firewall.MatchEther))
			macs := numbered(n)
			h.must(c.Replace(b.Context(), firewall.Ruleset{Deny: macs}))
			off, on := firewall.Change{Undeny: macs[:1]}, firewall.Change{Deny: macs[:1]}
			measured(b, func(i int) { h.must(c.Change(b.Context(), []firewall.Change{off, on}[i%2])) })
		})
	}
}

func BenchmarkHold(b *testing.B) {
	h := newHost(b)
	f := h.filter(firewall.MatchEther)
	l := h.lease(f)
	h.open(l, time.Minute)
	measured(b, func(int) { h.must(l.Hold(b.Context(), time.Minute)) })
}

func BenchmarkShut(b *testing.B) {
	h := newHost(b)
	l := h.lease(h.filter(firewall.MatchEther))
	measured(b, func(int) { h.must(l.Shut(b.Context())) })
}
