package rawsocket

import (
	"encoding/binary"
	"testing"
)

func TestChecksum(t *testing.T) {
	for name, c := range map[string]struct {
		bytes string
		want  uint16
	}{
		"nothing":            {"", 0xffff},
		"RFC 1071 section 3": {"\x00\x01\xf2\x03\xf4\xf5\xf6\xf7", ^uint16(0xddf2)},
		"an odd number":      {"\x00\x01\xf2", ^uint16(0xf201)},
		"carries of carries": {"\xff\xff\xff\xff\x00\x01", ^uint16(0x0001)},
		"header of IPv4":     {"\x45\x00\x00\x73\x00\x00\x40\x00\x40\x11\x00\x00\xc0\xa8\x00\x01\xc0\xa8\x00\xc7", 0xb861},
	} {
		if got := Checksum([]byte(c.bytes)); got != c.want {
			t.Errorf("%s: %04x, want %04x", name, got, c.want)
		}
	}
}

// What carries its own checksum sums up to nothing.
func FuzzChecksum(f *testing.F) {
	f.Add([]byte("abc"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16-4 || len(b)%2 == 1 {
			t.Skip()
		}
		if rest := Checksum(binary.BigEndian.AppendUint16(b, Checksum(b))); rest != 0 {
			t.Errorf("with its checksum it has another, %04x", rest)
		}
	})
}
