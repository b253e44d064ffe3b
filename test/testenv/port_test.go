package testenv

import (
	"net"
	"testing"
)

func TestFreePortIsReservedUntilTheTestEnds(t *testing.T) {
	var addr string
	t.Run("a test", func(t *testing.T) {
		addr = FreePort(t)
		if other := FreePort(t); other == addr || !Free(addr) || !Free(other) {
			t.Errorf("%s and %s, want two that are free", addr, other)
		}
		if ln, err := net.Listen("unix", reservation(addr)); err == nil {
			ln.Close()
			t.Errorf("%s can be had by another test", addr)
		}
	})
	ln, err := net.Listen("unix", reservation(addr))
	if err != nil {
		t.Fatalf("%s is reserved after its test: %v", addr, err)
	}
	ln.Close()
}

// TestFreeSeesBothProtocols: gossip listens over TCP and over UDP. The use of the port is
// not hermetic: FreePort has reserved it.
func TestFreeSeesBothProtocols(t *testing.T) {
	addr := FreePort(t)
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if Free(addr) {
		t.Error("a TCP listener has it, and it is free")
	}
	ln.Close()
	conn, err := net.ListenPacket("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if Free(addr) {
		t.Error("a UDP socket has it, and it is free")
	}
}
