package host

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/doctor"
)

// clock asks the kernel whether something keeps its clock right: chronyd, ntpd
// and systemd-timesyncd all say so there. A service that may not even ask leaves
// it open.
func (g *gathering) clock() {
	c := &g.facts.Clock
	c.Now = g.o.Now().Unix()
	c.Hypervisor = hypervisor(g.o.proc, g.o.sys)
	var asked unix.Timex // no mode: nothing is set
	if _, err := unix.Adjtimex(&asked); err != nil {
		return
	}
	c.Asked, c.Synchronised = true, asked.Status&unix.STA_UNSYNC == 0
}

// hypervisor names what this host is a guest of, "" where nothing says that it is one:
// by what its firmware says of the machine, or by the processor's flag, which the
// packaged unit hides (ProcSubset=pid).
func hypervisor(proc, sys string) string {
	const most = 4 << 10 // bytes
	for _, name := range []string{"sys_vendor", "product_name", "product_version", "bios_vendor"} {
		text, err := readBounded(filepath.Join(sys, "class/dmi/id", name), most)
		if err != nil {
			continue // a machine whose firmware does not say
		}
		for _, maker := range []string{"QEMU", "KVM", "VMware", "VirtualBox", "Xen", "Hyper-V", "Virtual Machine",
			"OpenStack", "Google Compute Engine", "BHYVE", "Parallels", "Bochs"} {
			if strings.HasPrefix(string(text), maker) {
				return maker
			}
		}
	}
	const mostProcessors = 4 << 20 // bytes
	text, err := readBounded(filepath.Join(proc, "cpuinfo"), mostProcessors)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if flags, ok := strings.CutPrefix(line, "flags"); ok && slices.Contains(strings.Fields(flags), "hypervisor") {
			return "a hypervisor"
		}
	}
	return ""
}

// The probe of the disk: so many writes, and no more when they took so long.
const (
	probeWrites = 10
	probeLimit  = 2 * time.Second
	probeSize   = 4 << 10 // bytes, as a page of the log
	probeName   = ".doctor-*"
)

// disk looks at the data directory's file system, and writes a small file there
// as the log is written.
func (g *gathering) disk() {
	dir := g.o.Config.DataDir
	d := &g.facts.Disk
	d.Path = dir
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		g.gap("disk", fmt.Sprintf("the file system of %s: %v", dir, err))
		return
	}
	block := uint64(st.Bsize)
	d.Size, d.Free, d.Inodes, d.InodesFree = st.Blocks*block, st.Bavail*block, st.Files, st.Ffree
	times, err := probe(dir)
	if err != nil && !errors.Is(err, unix.ENOSPC) { // that is told by the space
		g.gap("disk", "how long it takes to have a write: "+err.Error())
	}
	d.Probe = summary(times)
}

func probe(dir string) (times []time.Duration, err error) {
	f, err := os.CreateTemp(dir, probeName)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := os.Remove(f.Name()); err != nil { // now: nothing is left of it if this is killed
		return nil, err
	}
	page := make([]byte, probeSize)
	begun := time.Now()
	for len(times) < probeWrites && time.Since(begun) < probeLimit {
		at := time.Now()
		if _, err := f.WriteAt(page, 0); err != nil {
			return times, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return times, err
		}
		times = append(times, time.Since(at))
	}
	return times, nil
}

func summary(times []time.Duration) doctor.Writes {
	if len(times) == 0 {
		return doctor.Writes{}
	}
	sorted := slices.Sorted(slices.Values(times))
	return doctor.Writes{Count: len(sorted), MedianUS: sorted[len(sorted)/2].Microseconds(),
		MostUS: sorted[len(sorted)-1].Microseconds()}
}

// certificate looks at a certificate, and at its key if that may be read: a peer whose
// files do not fit serves the old pair until it ends, and does not start again.
func certificate(what, path, keyPath string) doctor.Certificate {
	c := doctor.Certificate{What: what, File: path}
	const most = 1 << 20 // bytes: a long chain
	text, err := readBounded(path, most)
	if err != nil {
		c.Error = err.Error()
		return c
	}
	block, _ := pem.Decode(text)
	if block == nil {
		c.Error = filepath.Base(path) + " is no PEM"
		return c
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		c.Error = err.Error()
		return c
	}
	if key, err := readBounded(keyPath, most); err == nil {
		if _, err := tls.X509KeyPair(text, key); err != nil {
			c.Error = fmt.Sprintf("%s and %s: %v", path, keyPath, err)
			return c
		}
	}
	c.NotBefore, c.NotAfter = cert.NotBefore.Unix(), cert.NotAfter.Unix()
	return c
}
