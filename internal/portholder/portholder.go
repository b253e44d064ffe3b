// Package portholder finds which process has a port of this host, for messages that
// name what is in the way. It asks the kernel's socket diagnostics, which tell every
// process the control group, and so the unit, of a socket; name and ID of the
// process need the right to look into it.
package portholder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Holder is a process that has a port.
type Holder struct {
	Program string // "" if this process may not see it
	PID     int    // 0 likewise
	Unit    string // of systemd: ssh.service, a container's scope; "" if it is in none
	UID     uint32 // of the user who opened the socket
	// Device is the index of the interface that the socket is bound to; 0: all.
	Device uint32
}

// String names it as far as it is known.
func (h Holder) String() string {
	var known []string
	if h.PID != 0 {
		known = append(known, fmt.Sprintf("pid %d", h.PID))
	}
	if h.Unit != "" {
		known = append(known, h.Unit)
	}
	if h.Program == "" {
		return strings.Join(append([]string{fmt.Sprintf("a program of the user with ID %d", h.UID)}, known...), ", ")
	}
	return fmt.Sprintf("%s (%s)", h.Program, strings.Join(known, ", "))
}

// Names joins holders for a message; "" if there are none.
func Names(holders []Holder) string {
	names := make([]string, 0, len(holders))
	for _, h := range holders {
		if name := h.String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " and ")
}

// InTheWay names what has the address that package net could not listen on; "" if err
// is of another kind, or the kernel does not tell.
func InTheWay(err error) string {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || !errors.Is(err, syscall.EADDRINUSE) || op.Addr == nil {
		return ""
	}
	addr, ok := op.Addr.(interface{ AddrPort() netip.AddrPort })
	if !ok {
		return "" // no port
	}
	holders, findErr := Of(op.Net, addr.AddrPort())
	if findErr != nil {
		return "" // a kernel without socket diagnostics: the error is told without it
	}
	return Names(holders)
}

// What the kernel is asked; the numbers and offsets are those of its UAPI's inet_diag.h.
const (
	byFamily      = 20 // SOCK_DIAG_BY_FAMILY
	requestLength = 56
	replyLength   = 72
	atPort        = 4
	atSource      = 8
	atDevice      = 40
	atUID         = 64
	atInode       = 68
	cgroupID      = 21 // INET_DIAG_CGROUP_ID, since Linux 5.8
	listening     = 10 // TCP_LISTEN
)

// Of returns what has a port, of network "tcp" (a listener) or "udp", at an address
// that excludes this one: the same, or one of both is that of all interfaces. Without a
// valid address the port is that of all interfaces.
func Of(network string, at netip.AddrPort) ([]Holder, error) {
	if !at.Addr().IsValid() {
		at = netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port())
	}
	protocol, states := byte(unix.IPPROTO_UDP), uint32(0xffffffff)
	if strings.HasPrefix(network, "tcp") {
		protocol, states = unix.IPPROTO_TCP, 1<<listening
	}
	conn, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the kernel for sockets: %w", err)
	}
	var holders []Holder
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		request := make([]byte, requestLength)
		request[0], request[1] = family, protocol
		binary.NativeEndian.PutUint32(request[4:], states)
		answer, askErr := conn.Execute(netlink.Message{
			Header: netlink.Header{Type: byFamily, Flags: netlink.Request | netlink.Dump}, Data: request,
		})
		err = errors.Join(err, askErr)
		for _, m := range answer {
			if h, ok := readReply(m.Data, family, at); ok {
				holders = append(holders, h)
			}
		}
	}
	if err = errors.Join(err, conn.Close()); err != nil {
		return nil, fmt.Errorf("ask the kernel for sockets: %w", err)
	}
	return holders, nil
}

// readReply reads the kernel's word on one socket; not ok if it leaves the address free.
func readReply(m []byte, family byte, at netip.AddrPort) (h Holder, ok bool) {
	if len(m) < replyLength || binary.BigEndian.Uint16(m[atPort:]) != at.Port() {
		return h, false
	}
	length := net.IPv4len
	if family == unix.AF_INET6 {
		length = net.IPv6len
	}
	source, _ := netip.AddrFromSlice(m[atSource : atSource+length])
	source, wanted := source.Unmap(), at.Addr().Unmap()
	if !source.IsUnspecified() && !wanted.IsUnspecified() && source != wanted {
		return h, false
	}
	if source.Is4() != wanted.Is4() && !(source.Is6() && source.IsUnspecified()) &&
		!(wanted.Is6() && wanted.IsUnspecified()) {
		return h, false // of the other family
	}
	h = Holder{Device: binary.NativeEndian.Uint32(m[atDevice:]), UID: binary.NativeEndian.Uint32(m[atUID:])}
	h.PID = processOf(binary.NativeEndian.Uint32(m[atInode:]))
	if h.PID != 0 {
		comm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(h.PID), "comm"))
		if h.Program = strings.TrimSpace(string(comm)); err != nil || h.Program == "" {
			h.Program, h.PID = "", 0 // it has ended
		}
	}
	h.Unit = unitOf(h.PID, m[replyLength:])
	return h, true
}

// processOf finds the process that has a socket open; 0 if none is seen.
func processOf(inode uint32) int {
	want := fmt.Sprintf("socket:[%d]", inode)
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*") // of processes that this one may look into
	for _, fd := range open {
		if to, err := os.Readlink(fd); err == nil && to == want {
			pid, _ := strconv.Atoi(strings.Split(fd, "/")[2])
			return pid
		}
	}
	return 0
}

// unitOf names the unit of a process, or of the control group in which a socket was
// opened.
func unitOf(pid int, attributes []byte) string {
	if pid != 0 {
		if text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup")); err == nil {
			for line := range strings.Lines(string(text)) {
				if unit := unitIn(strings.TrimSpace(line)); unit != "" {
					return unit
				}
			}
		}
	}
	d, err := netlink.NewAttributeDecoder(attributes)
	if err != nil {
		return ""
	}
	for d.Next() {
		if d.Type() == cgroupID {
			return unitIn(groupOf(d.Uint64()))
		}
	}
	return ""
}

// unitIn is the innermost unit of a control group's path.
func unitIn(path string) string {
	parts := strings.Split(path, "/")
	for _, part := range slices.Backward(parts) {
		if strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope") || strings.HasSuffix(part, ".socket") {
			return part
		}
	}
	return ""
}

// mostGroups bounds the control groups that are looked through.
const mostGroups = 20_000

// groupOf finds a control group by its ID, which is its directory's inode; "" if it is
// not found.
func groupOf(id uint64) (path string) {
	seen := 0
	for _, root := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return nil // what cannot be read is passed over
			}
			if seen++; seen > mostGroups {
				return filepath.SkipAll
			}
			info, err := entry.Info()
			if err != nil {
				return nil // it has ended
			}
			if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Ino == id {
				path = name
				return filepath.SkipAll
			}
			return nil
		})
		if path != "" || err != nil {
			return path
		}
	}
	return ""
}
