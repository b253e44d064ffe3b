package recorder

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/fsm/boots"
)

// Operations of TFTP (RFC 1350 §5, RFC 2347).
const (
	tftpPort = 69

	tftpRead  = 1
	tftpData  = 3
	tftpError = 5
	tftpOpts  = 6

	tftpBlock = 512 // unless the two ends agree on another size
)

// sampled is how many blocks the kernel's filter leaves out of those that it hands on: one of so
// many is enough to see how far a transfer is (see filter).
const sampled = 64

// silence is after how long without a frame a transfer counts as over: a client repeats itself
// after 1 to 4 s, and the kernel's filter leaves most blocks out.
const silence = 15 * time.Second

// Bounds of the transfers that are followed at once: the one of its machine, and else of all, that
// is silent for longest makes room.
const (
	maxTransfers  = 2000
	transfersEach = 8
)

// transfer is one file on its way to a machine, by TFTP or HTTP.
type transfer struct {
	mac    string
	direct net.HardwareAddr // the client's end of its frames; nil: a router's, of which there may be several
	client netip.AddrPort
	server netip.Addr
	file   string
	http   bool
	block  int   // bytes of a block
	size   int64 // of the file, as the server says; -1: it did not
	at     int64 // bytes that were sent, as far as was heard
	last   time.Time
}

// transfers follow the files that machines fetch. Its methods are for one goroutine at a time.
type transfers struct {
	open map[netip.AddrPort]*transfer // by the client's end
	of   map[string][]*transfer       // the same by their machines
}

func newTransfers() transfers {
	return transfers{make(map[netip.AddrPort]*transfer), make(map[string][]*transfer)}
}

// asksForFile reports whether a frame is a request for a file.
func asksForFile(f frame) bool {
	if f.Proto == unix.IPPROTO_TCP {
		return bytes.HasPrefix(f.Body, []byte("GET "))
	}
	return f.Dst.Port() == tftpPort && len(f.Body) >= 4 && binary.BigEndian.Uint16(f.Body) == tftpRead
}

// hear reads a frame of UDP or TCP. If it asks for a file, mac is the machine that does. steps are
// those that it ends.
func (ts transfers) hear(f frame, mac string, now time.Time) (steps []boots.Step) {
	if f.Proto == unix.IPPROTO_TCP {
		return ts.hearHTTP(f, mac, now)
	}
	if asksForFile(f) {
		return ts.begin(f, &transfer{mac: mac, file: said(string(f.Body[2:])), block: tftpBlock, last: now})
	}
	if len(f.Body) < 4 {
		return nil
	}
	op := binary.BigEndian.Uint16(f.Body)
	if t := ts.open[f.Src]; t.between(f.From, f.Dst.Addr()) && op == tftpError && !t.http {
		if t.at == 0 { // firmware asked for the size alone, and breaks off once it has it: that says nothing
			ts.drop(t)
			return nil
		}
		return ts.end(t, boots.Abandoned, said(string(f.Body[4:])))
	}
	t := ts.open[f.Dst]
	if !t.between(f.To, f.Src.Addr()) || t.http {
		return nil
	}
	t.last = now
	switch op {
	case tftpOpts:
		t.readOptions(f.Body[2:])
	case tftpError:
		return ts.end(t, boots.Failed, said(string(f.Body[4:])))
	case tftpData:
		return ts.sent(t, int(binary.BigEndian.Uint16(f.Body[2:])), f.Size-4)
	}
	return nil
}

// between reports whether a frame of the transfer's client end is of the transfer: another machine
// that uses the address is not its client.
func (t *transfer) between(client net.HardwareAddr, server netip.Addr) bool {
	return t != nil && t.server == server && (t.direct == nil || bytes.Equal(t.direct, client))
}

// begin follows one more, which a frame asks for; an earlier one of the same port of the client is
// over.
func (ts transfers) begin(f frame, t *transfer) (steps []boots.Step) {
	t.client, t.server, t.size = f.Src, f.Dst.Addr(), -1
	if f.From.String() == t.mac {
		t.direct = slices.Clone(f.From)
	}
	if before := ts.open[t.client]; before != nil {
		if before.mac == t.mac && before.file == t.file && before.at == 0 {
			before.last = t.last // the client repeats its request
			return nil
		}
		steps = ts.give(before)
	}
	bySilence := func(a, b *transfer) int { return a.last.Compare(b.last) }
	switch mine := ts.of[t.mac]; {
	case len(mine) >= transfersEach, len(mine) > 0 && len(ts.open) >= maxTransfers:
		ts.drop(slices.MinFunc(mine, bySilence))
	case len(ts.open) >= maxTransfers:
		ts.drop(slices.MinFunc(slices.Collect(maps.Values(ts.open)), bySilence))
	}
	ts.open[t.client], ts.of[t.mac] = t, append(ts.of[t.mac], t)
	return steps
}

func (ts transfers) drop(t *transfer) {
	delete(ts.open, t.client)
	ts.of[t.mac] = slices.DeleteFunc(ts.of[t.mac], func(o *transfer) bool { return o == t })
	if len(ts.of[t.mac]) == 0 {
		delete(ts.of, t.mac)
	}
}

// sent notes a block, by its number of 16 bits. One that is shorter than the others is the
// last one.
func (ts transfers) sent(t *transfer, number, length int) []boots.Step {
	const round = 1 << 16
	blocks := t.at / int64(t.block)
	next := blocks - blocks%round + int64(number)
	if next+round/2 < blocks { // the number began again
		next += round
	}
	t.at = max(t.at, (next-1)*int64(t.block)+int64(length))
	if length < t.block {
		return ts.end(t, boots.Fetched, "")
	}
	return nil
}

// quiet ends the transfers of which nothing was heard for long.
func (ts transfers) quiet(now time.Time) (ended []boots.Step) {
	for _, t := range ts.open {
		if now.Sub(t.last) > silence {
			ended = append(ended, ts.give(t)...)
		}
	}
	return ended
}

// give ends a transfer whose end was not heard: what was sent but for the blocks that the filter
// leaves out is complete.
func (ts transfers) give(t *transfer) []boots.Step {
	if t.size >= 0 && t.size-t.at <= int64(sampled*t.block) && t.at > 0 {
		return ts.end(t, boots.Fetched, "")
	}
	return ts.end(t, boots.Abandoned, "")
}

func (ts transfers) end(t *transfer, kind boots.Kind, text string) []boots.Step {
	ts.drop(t)
	n := t.at
	if kind == boots.Fetched && t.size >= 0 {
		n = t.size
	}
	return []boots.Step{{Kind: kind, MAC: t.mac, Server: t.server.String(), Address: t.client.Addr().String(),
		File: t.file, Text: text, Bytes: n}}
}

// readOptions reads what the server agrees to (RFC 2348, RFC 2349).
func (t *transfer) readOptions(b []byte) {
	words := strings.Split(string(b), "\x00")
	for i := 0; i+1 < len(words); i += 2 {
		n, err := strconv.ParseInt(words[i+1], 10, 64)
		switch name := strings.ToLower(words[i]); {
		case err != nil || n < 0:
		case name == "blksize" && n > 0 && n <= 1<<16:
			t.block = int(n)
		case name == "tsize":
			t.size = n
		}
	}
}

// hearHTTP reads the first line of a request for a file, or of its answer. How much of a file was
// fetched is not seen: an answer that begins well counts as fetched.
func (ts transfers) hearHTTP(f frame, mac string, now time.Time) []boots.Step {
	line, _, _ := bytes.Cut(f.Body, []byte("\r\n"))
	words := strings.SplitN(string(line), " ", 3)
	if len(words) < 2 {
		return nil
	}
	if words[0] == "GET" && len(words) == 3 && words[1] != "/" && strings.HasPrefix(words[2], "HTTP/1.") {
		return ts.begin(f, &transfer{mac: mac, http: true, last: now,
			file: said(fmt.Sprintf("http://%v%s", f.Dst, words[1]))})
	}
	t := ts.open[f.Dst]
	if !t.between(f.To, f.Src.Addr()) || !t.http || !strings.HasPrefix(words[0], "HTTP/1.") {
		return nil
	}
	if status, err := strconv.Atoi(words[1]); err != nil || status >= 400 {
		return ts.end(t, boots.Failed, said(strings.Join(words[1:], " ")))
	}
	return ts.end(t, boots.Fetched, "")
}
