package host

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// What goes over the wire (RFC 1350, 2347, 2349).
const (
	tftpData  = 3
	tftpAck   = 4
	tftpError = 5
	tftpOAck  = 6

	tftpBlock = 512
	tftpAgain = 500 * time.Millisecond // after which a packet is taken for lost
)

// tftpGet fetches the beginning of a file and lets the server go. A library
// would fetch it whole, or wait longer than ctx.
func tftpGet(ctx context.Context, u *url.URL) (head []byte, size int64, err error) {
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil, 0, fmt.Errorf("the TFTP server is no address: %w", err)
	}
	number, err := strconv.ParseUint(cmp.Or(u.Port(), "69"), 10, 16)
	if err != nil {
		return nil, 0, fmt.Errorf("the port of the TFTP server: %w", err)
	}
	conn, err := net.ListenUDP("udp", nil)
	if err != nil {
		return nil, 0, err
	}
	// ends the wait; there is nothing else to do
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	defer func() { err = errors.Join(err, conn.Close()) }()
	t := transfer{conn: conn, server: addr, to: netip.AddrPortFrom(addr, uint16(number)),
		name: strings.TrimPrefix(u.Path, "/")}
	err = t.fetch(ctx)
	return t.head, max(t.size, int64(len(t.head))), err
}

// transfer is one file on its way.
type transfer struct {
	conn   *net.UDPConn
	server netip.Addr
	to     netip.AddrPort // the server's end, once it has answered
	name   string
	head   []byte
	size   int64
	block  uint16 // that came last
}

func (t *transfer) fetch(ctx context.Context) error {
	last := fmt.Appendf(nil, "\x00\x01%s\x00octet\x00tsize\x000\x00", t.name)
	buffer := make([]byte, 4+tftpBlock)
	for {
		if _, err := t.conn.WriteToUDPAddrPort(last, t.to); err != nil {
			return err
		}
		if err := t.conn.SetReadDeadline(time.Now().Add(tftpAgain)); err != nil {
			return err
		}
		if ctx.Err() != nil { // it may have ended before that deadline was set
			return ctx.Err()
		}
		n, from, err := t.conn.ReadFromUDPAddrPort(buffer)
		var late net.Error
		if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late) && late.Timeout() {
			continue // until ctx ends
		}
		if err != nil {
			return err
		}
		if from.Addr().Unmap() != t.server.Unmap() || n < 4 {
			continue
		}
		t.to = from
		done, reply, err := t.handlePacket(buffer[:n])
		if err != nil || done {
			return err
		}
		last = reply
	}
}

// handlePacket reads one packet and says what is to be answered, or that it is enough.
func (t *transfer) handlePacket(p []byte) (done bool, reply []byte, err error) {
	kind, number := binary.BigEndian.Uint16(p), binary.BigEndian.Uint16(p[2:])
	switch kind {
	case tftpError:
		return true, nil, fmt.Errorf("the TFTP server says: %s", bytes.TrimRight(p[4:], "\x00"))
	case tftpOAck:
		t.options(p[2:])
		return false, ack(0), nil
	case tftpData:
		if number == t.block+1 {
			t.block, t.head = number, append(t.head, p[4:]...)
		}
		if len(p) < 4+tftpBlock {
			_, err := t.conn.WriteToUDPAddrPort(ack(number), t.to)
			return true, nil, err
		}
		if isEnough(t.head) {
			_, err := t.conn.WriteToUDPAddrPort([]byte("\x00\x05\x00\x00enough\x00"), t.to)
			return true, nil, err
		}
		return false, ack(t.block), nil
	}
	return true, nil, fmt.Errorf("the TFTP server answers with packets of kind %d", kind)
}

// options reads the size from what the server agreed to.
func (t *transfer) options(text []byte) {
	words := strings.Split(string(text), "\x00")
	for i := 0; i+1 < len(words); i += 2 {
		if n, err := strconv.ParseInt(words[i+1], 10, 64); strings.EqualFold(words[i], "tsize") && err == nil {
			t.size = n
		}
	}
}

func ack(block uint16) []byte { return []byte{0, tftpAck, byte(block >> 8), byte(block)} }
