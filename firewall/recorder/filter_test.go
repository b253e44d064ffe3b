package recorder

import (
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/rawsocket"
)

// The kernel hands on what a boot consists of, and none of the bulk.
func TestFilter(t *testing.T) {
	program, err := filter()
	if err != nil {
		t.Fatal(err)
	}
	all, ok := bpf.Disassemble(program)
	if !ok {
		t.Fatal("the program has instructions that nobody knows")
	}
	const tag = 4 // instructions that ask the kernel for the VLAN, which no other machine can (see TestRealWire)
	vm, err := bpf.NewVM(all[tag:])
	if err != nil {
		t.Fatal(err)
	}
	machine := hardware(t, machine1)
	data := func(number byte, length int) []byte {
		return datagram(own, machine, hostAt+":4000", given+":2070",
			append([]byte{0, tftpData, 0, number}, make([]byte, length)...))
	}
	six := func(src, dst byte, proto byte) []byte {
		b := append(append(append([]byte{}, machine...), own...), 0x86, 0xdd)
		b = append(b, make([]byte, rawsocket.IP6Header+rawsocket.UDPHeader)...)
		b[14], b[20] = 0x60, proto
		b[54], b[55], b[56], b[57] = 2, src, 2, dst
		return b
	}
	late := datagram(own, machine, hostAt+":67", given+":68", make([]byte, 300))
	late[20], late[21] = 0, 0xb9 // a fragment
	tagged := append(append(append([]byte{}, machine...), own...), 0x81, 0, 0, 5)
	arp := append(append(append([]byte{}, machine...), own...), 0x08, 0x06)
	for name, c := range map[string]struct {
		frame []byte
		keep  bool
	}{
		"DISCOVER":    {ask(t, machine1, dhcpv4.MessageTypeDiscover), true},
		"OFFER":       {give(t, own, hostAt, machine1, dhcpv4.MessageTypeOffer, "f"), true},
		"boot server": {datagram(machine, own, given+":68", hostAt+":4011", make([]byte, 300)), true},
		"request of TFTP": {datagram(machine, own, given+":2070", hostAt+":69", []byte("\x00\x01f\x00octet\x00")),
			true},
		"options of TFTP": {datagram(own, machine, hostAt+":4000", given+":2070", []byte("\x00\x06tsize\x009\x00")),
			true},
		"error of TFTP": {datagram(own, machine, hostAt+":4000", given+":2070", []byte("\x00\x05\x00\x01no\x00")),
			true},
		"acknowledgement of TFTP":  {datagram(machine, own, given+":2070", hostAt+":4000", []byte{0, 4, 0, 64}), false},
		"block of TFTP":            {data(2, 1408), false},
		"sampled block of TFTP":    {data(sampled+1, 1408), true},
		"first block of TFTP":      {data(1, 1408), true},
		"last block of TFTP":       {data(77, 700), true},
		"last block that is empty": {data(77, 0), true},
		"ARP":                      {append(arp, make([]byte, 28)...), true},
		"request by HTTP":          {segment(machine, own, given+":40000", hostAt+":80", "GET / HTTP/1.1\r\n"), true},
		"answer by HTTP":           {segment(own, machine, hostAt+":80", given+":40000", "HTTP/1.1 200 OK\r\n"), true},
		"what a callback sends": {segment(machine, own, given+":40000", hostAt+":5050", "POST /v1/continue HTTP/1.1\r\n"),
			false},
		"segment without a body":    {segment(machine, own, given+":40000", hostAt+":80", ""), false},
		"bytes of a file":           {segment(own, machine, hostAt+":80", given+":40000", "\x7fELF"), false},
		"name server":               {datagram(machine, own, given+":4000", hostAt+":53", make([]byte, 40)), false},
		"fragment":                  {late, false},
		"another network's VLAN":    {append(tagged, make([]byte, 60)...), false},
		"SOLICIT":                   {six(0x22, 0x23, unix.IPPROTO_UDP), true}, // 546, 547
		"answer of DHCPv6":          {six(0x23, 0x22, unix.IPPROTO_UDP), true},
		"other datagrams over IPv6": {six(1, 2, unix.IPPROTO_UDP), false},
		"segments over IPv6":        {six(0x22, 0x23, unix.IPPROTO_TCP), false},
		"a frame that is cut off":   {arp[:13], false},
	} {
		n, err := vm.Run(c.frame)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if (n > 0) != c.keep {
			t.Errorf("%s: %d bytes are handed on", name, n)
		}
	}
}
