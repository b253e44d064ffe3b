package rawsocket

import "encoding/binary"

// Checksum is that of the Internet protocols (RFC 1071) over b, at most 64 KiB,
// as if a zero followed where the number of bytes is odd.
func Checksum(b []byte) uint16 {
	var sum uint32 // of at most 32,768 words: the carries fit
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
