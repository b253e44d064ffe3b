package pxe

import (
	"net/netip"
	"testing"
	"time"
)

// TestLeaseFor: a lease of 15 minutes where the pool holds one batch, of 30 where
// it holds two.
func TestLeaseFor(t *testing.T) {
	for _, c := range []struct {
		addresses, batch int
		lease            time.Duration
		fits             bool
	}{
		{42, 200, ShortLease, false}, {199, 200, ShortLease, false}, {200, 200, ShortLease, true},
		{399, 200, ShortLease, true}, {400, 200, UsualLease, true}, {42, 21, UsualLease, true}, {42, 40, ShortLease, true},
	} {
		if lease, fits := LeaseFor(c.addresses, c.batch); lease != c.lease || fits != c.fits {
			t.Errorf("%d addresses for %d machines: %v, fits: %v", c.addresses, c.batch, lease, fits)
		}
	}
}

// TestFitting compares the advice with the pools that follow from it, and with
// those of a subnet half as large, or of one address more left to hosts.
func TestFitting(t *testing.T) {
	share := func(bits, reserve, parts int) int {
		pools, err := Cut{Parts: parts, Reserve: reserve}.Share(netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), bits))
		if err != nil {
			return 0
		}
		return pools[0].Size()
	}
	for _, size := range []int{8, 42, 43, 200, 340, 341, 342, 5000} {
		for parts := 1; parts <= 5; parts++ {
			bits := Fitting(size, parts)
			if got := share(bits, 0, parts); got < size {
				t.Errorf("/%d gives each of %d peers %d addresses, not %d", bits, parts, got, size)
			}
			if got := share(bits+1, 0, parts); got >= size {
				t.Errorf("/%d would do for %d addresses for each of %d peers: it gives %d", bits+1, size, parts, got)
			}
			subnet := netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), bits+1)
			reserve := ReserveFor(subnet, size, parts)
			if reserve == 0 {
				continue
			}
			if got := share(bits+1, reserve, parts); got < size {
				t.Errorf("%v with %d for hosts gives each of %d peers %d addresses, not %d", subnet, reserve, parts, got, size)
			}
			if got := share(bits+1, reserve+1, parts); got >= size {
				t.Errorf("%v could leave %d to hosts", subnet, reserve+1)
			}
		}
	}
	if bits := Fitting(1<<40, 3); bits != 0 {
		t.Errorf("/%d for 2^40 addresses", bits)
	}
}

// TestCapacity counts machines, which need an address of each family that is
// served.
func TestCapacity(t *testing.T) {
	s := exampleServer()
	if got := s.Capacity(); got != 42 {
		t.Errorf("both families: %d", got)
	}
	s.Pools = s.Pools[1:]
	if got := s.Capacity(); got != 4096 {
		t.Errorf("IPv6: %d", got)
	}
}

// TestSign: a change anywhere is seen, and a text without the mark is known as
// such.
func TestSign(t *testing.T) {
	text := Sign("a\nb\n")
	for file, want := range map[string][2]bool{
		text: {true, true}, "": {}, "a\nb\n": {}, "A" + text[1:]: {true, false}, text + "c\n": {true, false},
		text[:len(text)-2] + "\n": {true, false}, "x" + signature: {}, signature: {true, false},
	} {
		if signed, intact := Check(file); signed != want[0] || intact != want[1] {
			t.Errorf("%q: signed %v, intact %v", file, signed, intact)
		}
	}
}
