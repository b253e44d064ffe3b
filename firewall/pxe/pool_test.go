package pxe

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestShare(t *testing.T) {
	for _, c := range []struct {
		subnet      string
		part, parts int
		keep        string
		reserve     int
		want        string
	}{
		{"192.0.2.7/24", 0, 3, "", 0, "192.0.2.128-192.0.2.169"},
		{"192.0.2.7/24", 1, 3, "", 0, "192.0.2.170-192.0.2.211"},
		{"192.0.2.7/24", 2, 3, "", 0, "192.0.2.212-192.0.2.253"},
		{"192.0.2.0/24", 1, 3, "192.0.2.200 192.0.2.170 192.0.2.5 2001:db8::1", 0,
			"192.0.2.171-192.0.2.199 192.0.2.201-192.0.2.211"},
		{"192.0.2.0/24", 0, 3, "192.0.2.169 192.0.2.169", 0, "192.0.2.128-192.0.2.168"},
		{"10.1.0.0/16", 1, 5, "", 0, "10.1.153.153-10.1.179.49"},
		{"2001:db8::1/64", 0, 3, "", 0, "2001:db8::1000-2001:db8::1fff"},
		{"2001:db8::1/64", 2, 3, "2001:db8::3000", 0, "2001:db8::3001-2001:db8::3fff"},
		{"192.0.2.0/27", 0, 3, "", 0, "error"},
		{"192.0.2.0/31", 0, 3, "", 0, "error"},
		{"2001:db8::1/120", 0, 3, "", 0, "error"},
		{"2001:db8::/64", 0, 16, "", 0, "error"},
		{"192.0.2.0/24", 3, 3, "", 0, "error"},
		{"192.0.2.0/24", -1, 3, "", 0, "error"},
		{"192.0.2.0/24", 0, 3, "", 16, "192.0.2.16-192.0.2.94"},
		{"192.0.2.0/24", 2, 3, "", 16, "192.0.2.174-192.0.2.252"},
		{"192.0.2.0/24", 0, 3, "", 250, "error"},
		{"192.0.2.0/24", 0, 3, "", -1, "error"},
		{"10.0.0.0/22", 0, 3, "", 423, "10.0.1.167-10.0.2.110"},
	} {
		var keep []netip.Addr
		for _, text := range strings.Fields(c.keep) {
			keep = append(keep, netip.MustParseAddr(text))
		}
		pools, err := Cut{Part: c.part, Parts: c.parts, Reserve: c.reserve, Keep: keep}.Share(netip.MustParsePrefix(c.subnet))
		got := strings.Trim(fmt.Sprint(pools), "[]")
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%s, %d of %d: %s (%v), want %s", c.subnet, c.part+1, c.parts, got, err, c.want)
		}
	}
}

// TestSharesNeverMeet: whatever the subnet, no address is in two shares, none is
// to be kept, and none is that of the subnet or its broadcast.
func TestSharesNeverMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits, parts := rapid.IntRange(8, 30).Draw(t, "bits"), rapid.IntRange(1, 7).Draw(t, "parts")
		raw := rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address")
		subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte(raw)), bits).Masked()
		reserve := rapid.IntRange(0, 300).Draw(t, "reserve")
		kept := at(subnet, rapid.Int64Range(0, 1<<(32-bits)-1).Draw(t, "kept"))
		broadcast := at(subnet, 1<<(32-bits)-1)
		var before netip.Addr
		for part := range parts {
			pools, err := Cut{Part: part, Parts: parts, Reserve: reserve, Keep: []netip.Addr{kept}}.Share(subnet)
			if err != nil {
				return // too small, and then for every part
			}
			for _, p := range pools {
				if !p.Within(subnet) || p.Last.Less(p.First) || before.IsValid() && !before.Less(p.First) {
					t.Fatalf("%v after %v in %v", p, before, subnet)
				}
				for _, a := range []netip.Addr{kept, broadcast, subnet.Addr()} {
					if !a.Less(p.First) && !p.Last.Less(a) {
						t.Fatalf("%v holds %v", p, a)
					}
				}
				before = p.Last
			}
		}
	})
}

func TestParsePool(t *testing.T) {
	for text, size := range map[string]int{
		"192.0.2.1-192.0.2.9": 9, "192.0.2.1 - 192.0.2.1": 1, "2001:db8::1-2001:db8:1::": 1 << 16,
		"192.0.2.1": -1, "192.0.2.9-192.0.2.1": -1, "192.0.2.1-2001:db8::": -1, "": -1, "fe80::1%a-fe80::2%a": -1,
	} {
		p, err := ParsePool(text)
		if got := p.sizeOr(err); got != size {
			t.Errorf("%q: %d (%v), want %d", text, got, err, size)
		}
	}
}

func (p Pool) sizeOr(err error) int {
	if err != nil {
		return -1
	}
	return p.Size()
}

func TestFiles(t *testing.T) {
	if files := Files(); !slices.Contains(files, "undionly.kpxe") || len(files) != 3 {
		t.Errorf("%v", files)
	}
}
