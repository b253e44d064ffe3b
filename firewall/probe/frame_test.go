package probe

import (
	"bytes"
	"encoding/hex"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/trivet-ha/trivet/firewall"
)

const xid = 0xdecafbad

func testMAC(t testing.TB) net.HardwareAddr {
	t.Helper()
	mac, err := net.ParseMAC(firewall.TestMAC)
	if err != nil {
		t.Fatal(err)
	}
	return mac
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The MAC of the test is one that no machine has: local, and of one station.
func TestMACIsLocal(t *testing.T) {
	if mac := testMAC(t); mac[0]&0x03 != 0x02 || mac.String() != firewall.TestMAC {
		t.Errorf("%v", mac)
	}
}

// The bytes, checksums too, were made by another program.
func TestRequestIsADiscoverOfAPXERom(t *testing.T) {
	want := unhex(t, `
		ffffffffffff 027472697674 0800
		4500 0148 0000 0000 40 11 79a6 00000000 ffffffff
		0044 0043 0134 dade
		01 01 06 00 decafbad 0000 8000 00000000 00000000 00000000 00000000 027472697674`)
	want = append(want, make([]byte, 10+64+128)...) // the rest of chaddr, sname, file
	want = append(want, unhex(t, "63825363 350101 3c20")...)
	want = append(want, "PXEClient:Arch:00000:UNDI:002001"...)
	want = append(want, unhex(t, "3705 0103364243 ff")...)
	want = append(want, make([]byte, 342-len(want))...)
	if got := discover(testMAC(t), xid); !bytes.Equal(got, want) {
		t.Errorf("the request is\n%x\nwant\n%x", got, want)
	}
}

// answered is an answer to the request, as a server sends it.
func answered(t testing.TB, options string) []byte {
	t.Helper()
	b := unhex(t, `
		ffffffffffff 525400000009 0800
		4500 0128 0000 4000 40 11 0000 c0000209 ffffffff
		0043 0044 0114 0000
		02 01 06 00 decafbad 0000 8000 00000000 c0000263 c0000209 00000000 027472697674`)
	b = append(b, make([]byte, 10+64+128)...)
	return append(append(b, cookie...), unhex(t, options)...)
}

func TestAnswersNameTheirServer(t *testing.T) {
	for name, c := range map[string]struct{ options, address string }{
		"it calls itself":       {"350102 3604c0000205 ff", "192.0.2.5"},
		"padded":                {"00 00 350102 00 3604c0000205 ff", "192.0.2.5"},
		"it does not":           {"350102 ff", "192.0.2.9"},
		"after the end":         {"350102 ff 3604c0000205", "192.0.2.9"},
		"cut off":               {"350102 3604c00002", "192.0.2.9"},
		"an identifier of five": {"3605c000020501 ff", "192.0.2.9"},
		"no options":            {"", "192.0.2.9"},
	} {
		got, ok := offer(answered(t, c.options), testMAC(t), xid)
		if want := (Server{Address: netip.MustParseAddr(c.address), MAC: "52:54:00:00:00:09"}); !ok || got != want {
			t.Errorf("%s: %v, %v, want %v", name, got, ok, want)
		}
	}
}

// broken is an answer with some of its bytes changed, so that it is none.
var broken = map[string]struct {
	at    int
	bytes string
}{
	"IPv6":                 {12, "86dd"},
	"TCP":                  {23, "06"},
	"a later fragment":     {20, "0001"},
	"a short IP header":    {14, "44"},
	"a long IP header":     {14, "4f"},
	"from a client's port": {34, "0044"},
	"to a server's port":   {36, "0043"},
	"a request":            {42, "01"},
	"another transaction":  {46, "decafbae"},
	"another machine":      {70, "525400000001"},
}

func TestWhatIsNoAnswerIsNotHeard(t *testing.T) {
	for name, c := range broken {
		frame := answered(t, "350102 ff")
		copy(frame[c.at:], unhex(t, c.bytes))
		if s, ok := offer(frame, testMAC(t), xid); ok {
			t.Errorf("%s: heard %v", name, s)
		}
	}
	frame := answered(t, "")
	for n := range len(frame) - len(cookie) {
		if s, ok := offer(frame[:n], testMAC(t), xid); ok {
			t.Fatalf("heard %v in %d bytes", s, n)
		}
	}
}

// kernelFilter returns what the kernel does with a frame under a program for a transaction.
func kernelFilter(t *testing.T, assemble func(xid uint32) ([]bpf.RawInstruction, error),
	xid uint32) (passes func(frame []byte) bool) {
	t.Helper()
	program, err := assemble(xid)
	if err != nil {
		t.Fatal(err)
	}
	instructions, ok := bpf.Disassemble(program)
	if !ok {
		t.Fatal("the filter cannot be read back")
	}
	vm, err := bpf.NewVM(instructions)
	if err != nil {
		t.Fatal(err)
	}
	return func(frame []byte) bool {
		t.Helper()
		n, err := vm.Run(frame)
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	}
}

// The kernel lets the answer through, also behind IP options, and of the rest
// nothing but what needs more than a look at it.
func TestKernelFiltersAnswers(t *testing.T) {
	passes := kernelFilter(t, answers, xid)
	if !passes(answered(t, "350102 ff")) {
		t.Error("the answer does not pass")
	}
	plain := answered(t, "350102 ff")
	long := append(append(append([]byte{}, plain[:34]...), 1, 1, 1, 0), plain[34:]...)
	long[14] = 0x46
	if _, ok := offer(long, testMAC(t), xid); !ok || !passes(long) {
		t.Error("an answer with IP options does not pass")
	}
	for _, name := range []string{"TCP", "from a client's port", "to a server's port", "another transaction"} {
		frame := answered(t, "350102 ff")
		copy(frame[broken[name].at:], unhex(t, broken[name].bytes))
		if passes(frame) {
			t.Errorf("%s passes", name)
		}
	}
	if passes(discover(testMAC(t), xid)) {
		t.Error("the request itself passes")
	}
}

func FuzzOffer(f *testing.F) {
	f.Add(answered(f, "350102 3604c0000205 ff"))
	f.Add(discover(testMAC(f), xid))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if s, ok := offer(frame, testMAC(t), xid); ok && (!s.Address.Is4() || s.MAC == "") {
			t.Errorf("heard %v", s)
		}
	})
}
