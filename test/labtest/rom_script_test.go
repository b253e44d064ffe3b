//go:build e2e

package labtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/testenv"
)

// romScript looks at what the script of dnsmasq-config does in a ROM: it boots a
// kernel of Linux's kind with the whole command line, and where there is none
// for a while the machine begins anew until there is.
func romScript(t *testing.T, report *romReport) {
	l := romKind{machines: 2, apart: true}.build(t) // what is booted here asks nobody
	l.Introspect(l.machines)
	l.kernels(func(h *Host) []byte { return tinyKernel(fmt.Sprint(saysHost, h.number, "\r\n"), "\r\n"+saysEnd+"\r\n") })
	l.each(l.machines[:1], 1, func(m openstack.Machine) error { return l.bootsWithItsArguments(report, m) })
	l.each(l.machines[1:], 1, func(m openstack.Machine) error { return l.beginsAnew(report, m) })
}

// kernels puts a kernel into the TFTP root of every host.
func (l *romLab) kernels(of func(*Host) []byte) {
	l.t.Helper()
	for _, p := range l.Peers {
		testenv.Must(l.t, os.WriteFile(filepath.Join(l.root(p), standInName), of(p.Host), 0o644))
	}
}

// bootsWithItsArguments boots a machine, whose kernel must be given all that the
// script says.
func (l *romLab) bootsWithItsArguments(report *romReport, m openstack.Machine) error {
	text, err := os.ReadFile(filepath.Join(l.root(l.Peers[0]), pxe.ScriptName))
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), standInName+" ")
	words, _, _ := strings.Cut(rest, " ||")
	want := strings.ReplaceAll(words, "${mac}", m.MAC)
	return l.boots(report, "kernel of Linux's kind", m, biosIPXE(), func(r *rom, b romBoot) error {
		if !strings.Contains(want, "BOOTIF="+m.MAC) || !r.console.says(want) {
			return fmt.Errorf("its kernel was not given %q", want)
		}
		return atOnce(b)
	})
}

// beginsAnew boots a machine whose kernel comes only after the script has given
// up.
func (l *romLab) beginsAnew(report *romReport, m openstack.Machine) error {
	kernel := filepath.Join(l.root(l.WaitLeader()), standInName)
	if err := os.Rename(kernel, kernel+".away"); err != nil {
		return err
	}
	r, err := l.on(m, biosIPXE())
	if err != nil {
		return err
	}
	err = r.wait(biosIPXE().limit, func() bool { return r.console.says("Try 4 of 4 failed") })
	err = errors.Join(err, os.Rename(kernel+".away", kernel))
	if err == nil {
		err = l.finishes(report, "kernel missing until the script gave up", r, m, biosIPXE(), func(_ *rom, b romBoot) error {
			if b.From != b.Leader || b.Rounds != 2 {
				return fmt.Errorf("booted from host %d in round %d; want host %d in round 2", b.From, b.Rounds, b.Leader)
			}
			return nil
		})
	}
	return errors.Join(l.told(r, m, err), r.powerOff())
}

// Places in an image of Linux for BIOS, and in the code of tinyKernel (Linux,
// Documentation/arch/x86/boot.rst).
const (
	atSectors = 0x1f1 // how many the code that starts in real mode has
	atSetup   = 0x1fe // the signatures, and a jump over the header
	atFlags   = 0x211
	atStart32 = 0x214
	atCommand = 0x228 // where the loader puts the address of the command line
	atMost    = 0x22c // the highest address of the ramdisk
	atLongest = 0x238 // the longest command line
	atCode    = 0x280
	atRest    = 0x400 // what runs in protected mode, if anything does
)

// tinyKernel is a kernel for machines with a BIOS that does nothing but write
// its greeting and its command line on the first serial port. The loader takes
// it for Linux.
func tinyKernel(greeting, ending string) []byte {
	image := make([]byte, atRest+512)
	image[atSectors] = 1
	copy(image[atSetup:], "\x55\xaa\xeb\x7eHdrS\x06\x02") // jmp atCode; version 2.06
	image[atFlags] = 1                                    // loaded high
	binary.LittleEndian.PutUint32(image[atStart32:], 0x100000)
	binary.LittleEndian.PutUint32(image[atMost:], 0x37ffffff)
	binary.LittleEndian.PutUint32(image[atLongest:], 2047)

	// The loader enters with DS on the image's first byte.
	code := []byte{0xbe, 0, 0, 0xe8, 0, 0} // mov si, greeting; call write
	code = append(code, 0x66, 0xa1)        // mov eax, [atCommand]
	code = binary.LittleEndian.AppendUint16(code, atCommand)
	code = append(code, 0x89, 0xc6, 0xe8, 0, 0) // mov si, ax, for it is in this segment; call write
	code = append(code, 0xbe, 0, 0, 0xe8, 0, 0) // mov si, ending; call write
	code = append(code, 0xf4, 0xeb, 0xfd)       // again: hlt; jmp again
	write := len(code)
	code = append(code,
		0xac,       // write: lodsb
		0x84, 0xc0, // test al, al
		0x74, 0x10, // jz done
		0x50,             // push ax
		0xba, 0xfd, 0x03, // mov dx, line status
		0xec,       // busy: in al, dx
		0xa8, 0x20, // test al, room for a byte
		0x74, 0xfb, // jz busy
		0x58,             // pop ax
		0xba, 0xf8, 0x03, // mov dx, data
		0xee,       // out dx, al
		0xeb, 0xeb, // jmp write
		0xc3, // done: ret
	)
	words := append(append([]byte(greeting), 0), append([]byte(ending), 0)...)
	for _, at := range []int{3, 12, 18} { // the calls
		binary.LittleEndian.PutUint16(code[at+1:], uint16(write-at-3))
	}
	binary.LittleEndian.PutUint16(code[1:], uint16(atCode+len(code)))
	binary.LittleEndian.PutUint16(code[16:], uint16(atCode+len(code)+bytes.IndexByte(words, 0)+1))
	copy(image[atCode:], append(code, words...))
	return image
}
