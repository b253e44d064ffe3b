package recorder

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
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

// maxTransfers bounds the transfers that are followed at once: the one that is silent for
// longest makes room.
const maxTransfers = 2000

// transfer is one file on its way to a machine, by TFTP or HTTP.
type transfer struct {
	mac    string
	client netip.AddrPort
	server netip.Addr
	file   string
	http   bool
	block  int   // bytes of a block
	size   int64 // of the file, as the server says; -1: it did not
	at     int64 // bytes that were sent, as far as was heard
	last   time.Time
}

// transfers follow the files that machines fetch. Its methods are for one goroutine.
type transfers struct{ open map[netip.AddrPort]*transfer }

// hear reads a frame of UDP or TCP from or to the machine with that MAC; steps are those that
// it ends.
func (ts *transfers) hear(f frame, mac string, now time.Time) (steps []boots.Step) {
	if f.proto == unix.IPPROTO_TCP {
		return ts.hearHTTP(f, mac, now)
	}
	if len(f.body) < 4 {
		return nil
	}
	op := binary.BigEndian.Uint16(f.body)
	if f.dst.Port() == tftpPort && op == tftpRead {
		return ts.begin(&transfer{mac: mac, client: f.src, server: f.dst.Addr(), file: readName(f.body[2:]),
			block: tftpBlock, size: -1, last: now})
	}
	if t := ts.open[f.src]; t != nil && t.server == f.dst.Addr() && op == tftpError && !t.http {
		return ts.endByClient(t, f.body)
	}
	t := ts.open[f.dst]
	if t == nil || t.http || t.server != f.src.Addr() {
		return nil
	}
	t.last = now
	switch op {
	case tftpOpts:
		t.readOptions(f.body[2:])
	case tftpError:
		return ts.end(t, boots.Failed, said(string(f.body[4:])))
	case tftpData:
		return ts.sent(t, int(binary.BigEndian.Uint16(f.body[2:])), len(f.body)-4)
	}
	return nil
}

// begin follows one more; an earlier one of the same port of the client is over.
func (ts *transfers) begin(t *transfer) (steps []boots.Step) {
	if before := ts.open[t.client]; before != nil {
		if before.file == t.file && before.at == 0 {
			before.last = t.last // the client repeats its request
			return nil
		}
		steps = ts.give(before)
	}
	if len(ts.open) >= maxTransfers {
		oldest := t
		for _, o := range ts.open {
			if o.last.Before(oldest.last) {
				oldest = o
			}
		}
		delete(ts.open, oldest.client)
	}
	ts.open[t.client] = t
	return steps
}

// sent notes a block, by its number of 16 bits. One that is shorter than the others is the
// last one.
func (ts *transfers) sent(t *transfer, number, length int) []boots.Step {
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

// endByClient reads a client's error. Firmware asks for the size of a file alone, and breaks off
// once it has it: that says nothing.
func (ts *transfers) endByClient(t *transfer, body []byte) []boots.Step {
	if t.at == 0 {
		delete(ts.open, t.client)
		return nil
	}
	return ts.end(t, boots.Abandoned, said(string(body[4:])))
}

// quiet ends the transfers of which nothing was heard for long.
func (ts *transfers) quiet(now time.Time) (ended map[string][]boots.Step) {
	ended = make(map[string][]boots.Step)
	for _, t := range ts.open {
		if now.Sub(t.last) > silence {
			ended[t.mac] = append(ended[t.mac], ts.give(t)...)
		}
	}
	return ended
}

// give ends a transfer whose end was not heard: what was sent but for the blocks that the filter
// leaves out is complete.
func (ts *transfers) give(t *transfer) []boots.Step {
	if t.size >= 0 && t.size-t.at <= int64(sampled*t.block) && t.at > 0 {
		return ts.end(t, boots.Fetched, "")
	}
	return ts.end(t, boots.Abandoned, "")
}

func (ts *transfers) end(t *transfer, kind boots.Kind, text string) []boots.Step {
	delete(ts.open, t.client)
	n := t.at
	if kind == boots.Fetched && t.size >= 0 {
		n = t.size
	}
	return []boots.Step{{Kind: kind, Server: t.server.String(), Address: t.client.Addr().String(), File: t.file,
		Text:  text,
		Bytes: n}}
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

// readName is the text before the first zero.
func readName(b []byte) string {
	name, _, _ := bytes.Cut(b, []byte{0})
	return said(string(name))
}

// hearHTTP reads the first line of a request for a file, or of its answer. How much of a file was
// fetched is not seen: an answer that begins well counts as fetched.
func (ts *transfers) hearHTTP(f frame, mac string, now time.Time) []boots.Step {
	line, _, _ := bytes.Cut(f.body, []byte("\r\n"))
	words := strings.SplitN(string(line), " ", 3)
	if len(words) < 2 {
		return nil
	}
	if words[0] == "GET" && len(words) == 3 && strings.HasPrefix(words[2], "HTTP/1.") {
		return ts.begin(&transfer{mac: mac, client: f.src, server: f.dst.Addr(), http: true, size: -1, last: now,
			file: said(fmt.Sprintf("http://%v%s", f.dst, words[1]))})
	}
	t := ts.open[f.dst]
	if t == nil || !t.http || t.server != f.src.Addr() || !strings.HasPrefix(words[0], "HTTP/1.") {
		return nil
	}
	if status, err := strconv.Atoi(words[1]); err != nil || status >= 400 {
		return ts.end(t, boots.Failed, said(strings.Join(words[1:], " ")))
	}
	return ts.end(t, boots.Fetched, "")
}
