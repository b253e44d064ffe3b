package probe

import (
	"bytes"
	"net/netip"
	"testing"
)

func asking() netip.Addr { return netip.MustParseAddr("fe80::1") }

// The bytes were put together by hand from RFC 8415 and RFC 8200, the checksum by
// another program.
func TestSolicitIsOfAPXEMachine(t *testing.T) {
	want := unhex(t, `
		333300010002 027472697674 86dd
		60000000 0060 11 01 fe800000000000000000000000000001 ff020000000000000000000000010002
		0222 0223 0060 c3c0
		01 fecaba
		0001 000a 0003 0001 027472697674
		0003 000c 00000000 00000000 00000000
		0008 0002 0000
		0006 0002 003b
		0010 0026 00000157 0020`)
	want = append(want, class...)
	if got := solicit(testMAC(t), asking(), 0xdefecaba); !bytes.Equal(got, want) {
		t.Errorf("the request is\n%x\nwant\n%x", got, want)
	}
}

// advertised is an ADVERTISE, as a server sends it.
func advertised(t testing.TB) []byte {
	t.Helper()
	return append(unhex(t, `
		525400000001 525400000009 86dd
		60000000 001a 11 40 fe800000000000000000000000000009 fe800000000000000000000000000001
		0223 0222 001a 0000
		02 fecaba`), "\x00\x02\x00\x0a\x00\x03\x00\x01\x52\x54\x00\x00\x00\x09"...)
}

// broken6 is an ADVERTISE with some of its bytes changed, so that it is no answer.
var broken6 = map[string]struct {
	at    int
	bytes string
	early bool // the kernel's filter already drops it
}{
	"IPv4":                  {12, "0800", false},
	"another version":       {14, "40", false},
	"an extension header":   {20, "00", true},
	"to another host":       {53, "02", false},
	"from a client's port":  {54, "0222", true},
	"to a server's port":    {56, "0223", true},
	"a SOLICIT":             {62, "01", false},
	"another's transaction": {63, "fecabb", true},
}

func TestAdvertisementNamesItsServer(t *testing.T) {
	want := Server{Address: netip.MustParseAddr("fe80::9"), MAC: "52:54:00:00:00:09"}
	frame := advertised(t)
	if got, ok := advertisement(frame, asking(), 0xdefecaba); !ok || got != want {
		t.Errorf("%v, %v, want %v", got, ok, want)
	}
	frame[62] = replyType // of a server that commits at once
	if got, ok := advertisement(frame, asking(), 0xdefecaba); !ok || got != want {
		t.Errorf("a REPLY: %v, %v, want %v", got, ok, want)
	}
	for name, c := range broken6 {
		frame := advertised(t)
		copy(frame[c.at:], unhex(t, c.bytes))
		if s, ok := advertisement(frame, asking(), 0xdefecaba); ok {
			t.Errorf("%s: heard %v", name, s)
		}
	}
	for n := range atMessage6 + 4 {
		if s, ok := advertisement(advertised(t)[:n], asking(), 0xdefecaba); ok {
			t.Fatalf("heard %v in %d bytes", s, n)
		}
	}
}

func TestKernelFiltersAdvertisements(t *testing.T) {
	passes := kernelFilter(t, answers6, 0xdefecaba)
	if !passes(advertised(t)) {
		t.Error("the answer does not pass")
	}
	for name, c := range broken6 {
		frame := advertised(t)
		copy(frame[c.at:], unhex(t, c.bytes))
		if c.early && passes(frame) {
			t.Errorf("%s passes", name)
		}
	}
	if passes(solicit(testMAC(t), asking(), 0xdefecaba)) {
		t.Error("the request itself passes")
	}
}

func FuzzAdvertisement(f *testing.F) {
	f.Add(advertised(f))
	f.Add(solicit(testMAC(f), asking(), xid))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if s, ok := advertisement(frame, asking(), xid); ok && (!s.Address.Is6() || s.MAC == "") {
			t.Errorf("heard %v", s)
		}
	})
}
