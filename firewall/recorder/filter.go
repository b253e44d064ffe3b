package recorder

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/rawsocket"
)

// filter is the program by which the kernel hands on what a boot consists of, and nothing of
// other traffic: ARP; UDP from or to the ports of DHCP; requests, options, errors and every
// sampled-th block of TFTP, and each block of a size that servers do not choose, as the last one
// of a file mostly is; and segments of TCP that begin a request for a file or its answer. Of IPv6
// it hands on DHCP and requests of TFTP. Frames with a VLAN tag are of another network than the
// interface's: the kernel takes the tag off before it shows a frame, and tells it aside.
func filter() ([]bpf.RawInstruction, error) {
	p := program{labels: make(map[string]int), jumps: make(map[int][2]string)}
	p.add(bpf.LoadExtension{Num: bpf.ExtVLANTagPresent})
	p.jump(bpf.JumpEqual, 0, "untagged", "")
	p.add(bpf.LoadExtension{Num: bpf.ExtVLANTag})
	p.jump(bpf.JumpBitsSet, 0x0fff, "drop", "") // 0 is a priority alone
	p.label("untagged")
	p.load(12, 2)
	p.jump(bpf.JumpEqual, unix.ETH_P_ARP, "keep", "")
	p.jump(bpf.JumpEqual, unix.ETH_P_IPV6, "six", "")
	p.jump(bpf.JumpEqual, unix.ETH_P_IP, "", "drop")

	p.load(20, 2)
	p.jump(bpf.JumpBitsSet, 0x1fff, "drop", "") // a fragment but the first
	p.add(bpf.LoadMemShift{Off: 14})            // X: the length of the IP header
	p.load(23, 1)
	p.jump(bpf.JumpEqual, unix.IPPROTO_TCP, "tcp", "")
	p.jump(bpf.JumpEqual, unix.IPPROTO_UDP, "", "drop")
	p.add(bpf.LoadIndirect{Off: 14, Size: 2})
	p.ports("keep")
	p.add(bpf.LoadIndirect{Off: 16, Size: 2})
	p.ports("keep")
	p.jump(bpf.JumpEqual, tftpPort, "keep", "")
	p.add(bpf.LoadIndirect{Off: 22, Size: 2}) // the operation
	p.jump(bpf.JumpEqual, tftpError, "keep", "")
	p.jump(bpf.JumpEqual, tftpOpts, "keep", "")
	p.jump(bpf.JumpEqual, tftpData, "", "drop")
	p.add(bpf.LoadIndirect{Off: 24, Size: 2}) // the number of the block
	p.add(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: sampled - 1})
	// The first is among them: it tells a file that is sent from a size that is asked for.
	p.jump(bpf.JumpEqual, 1, "keep", "")
	p.add(bpf.LoadIndirect{Off: 18, Size: 2})                                    // the length of the datagram
	for _, block := range []int{512, 1024, 1408, 1428, 1432, 1450, 1456, 1468} { // firmware, iPXE and servers agree on
		p.jump(bpf.JumpEqual, uint32(rawsocket.UDPHeader+4+block), "drop", "")
	}
	p.jump(bpf.JumpEqual, 0, "drop", "keep") // none of them

	p.label("tcp")
	p.add(bpf.LoadIndirect{Off: 26, Size: 1}) // the length of the TCP header, in words, above four bits
	p.add(bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 2})
	p.add(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0x3c})
	p.add(bpf.ALUOpX{Op: bpf.ALUOpAdd})
	p.add(bpf.TAX{})
	p.add(bpf.LoadIndirect{Off: 14, Size: 4})         // a segment without a body ends here, and is dropped
	p.jump(bpf.JumpEqual, 0x47455420, "keep", "")     // "GET "
	p.jump(bpf.JumpEqual, 0x48545450, "keep", "drop") // "HTTP"

	p.label("six")
	p.load(20, 1)
	p.jump(bpf.JumpEqual, unix.IPPROTO_UDP, "", "drop")
	p.load(54, 2)
	p.ports("keep")
	p.load(56, 2)
	p.ports("keep")
	p.jump(bpf.JumpEqual, tftpPort, "keep", "drop")

	p.label("keep")
	p.add(bpf.RetConstant{Val: rawsocket.MaxFrame})
	p.label("drop")
	p.add(bpf.RetConstant{Val: 0})
	return p.assemble()
}

// program is a filter whose jumps name where they lead.
type program struct {
	all    []bpf.Instruction
	labels map[string]int
	jumps  map[int][2]string // where the jump at an index leads if it is true, and if not; "": on
}

func (p *program) add(i bpf.Instruction) { p.all = append(p.all, i) }

func (p *program) load(off uint32, size int) { p.add(bpf.LoadAbsolute{Off: off, Size: size}) }

func (p *program) label(name string) { p.labels[name] = len(p.all) }

func (p *program) jump(cond bpf.JumpTest, val uint32, then, otherwise string) {
	p.jumps[len(p.all)] = [2]string{then, otherwise}
	p.add(bpf.JumpIf{Cond: cond, Val: val})
}

// ports jumps if what is loaded is a port of DHCP.
func (p *program) ports(to string) {
	for _, port := range []uint32{serverPort, clientPort, pxePort, server6Port, client6Port} {
		p.jump(bpf.JumpEqual, port, to, "")
	}
}

// assemble resolves the jumps, all of which lead ahead.
func (p *program) assemble() ([]bpf.RawInstruction, error) {
	for at, to := range p.jumps {
		jump := p.all[at].(bpf.JumpIf)
		for i, skip := range []*uint8{&jump.SkipTrue, &jump.SkipFalse} {
			if to[i] != "" {
				*skip = uint8(p.labels[to[i]] - at - 1)
			}
		}
		p.all[at] = jump
	}
	return bpf.Assemble(p.all)
}
