//go:build e2e

package attacktest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// most is the memory that a peer may have resident under any of these attacks, MiB.
const most = 600

// flood is many connections to a victim.
type flood struct {
	ctx   context.Context // dials until its end
	api   string
	mu    sync.Mutex
	conns []net.Conn
}

func (v *victim) flood() *flood {
	f := &flood{ctx: v.Context(), api: v.api}
	v.Cleanup(f.end)
	return f
}

// end closes the connections.
func (f *flood) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		_ = c.Close() // the victim may have closed it
	}
	f.conns = nil
}

// open opens connections from sources in turn and writes text to each. That the
// victim takes none, or hangs up, is its right.
func (f *flood) open(count int, sources []string, text string) {
	var work sync.WaitGroup
	slots := make(chan struct{}, 50)
	for n := range count {
		work.Go(func() {
			slots <- struct{}{} // a slot is given back below, after answerWithin at most
			defer func() { <-slots }()
			c, err := from(sources[n%len(sources)])(f.ctx, "tcp", f.api)
			if err != nil {
				return
			}
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetReadBuffer(4 << 10) // answers wait in the victim, not in the kernel
			}
			_ = c.SetDeadline(time.Now().Add(answerWithin)) // a connection that is closed fails below
			_, _ = io.WriteString(c, text)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.conns = append(f.conns, c)
		})
	}
	work.Wait()
}

// stalled answers a document that was let in and did not come.
const stalled = "The body did not come in in time"

// answered reports whether a connection has an answer with these words.
func (f *flood) answered(words string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := make([]byte, 4<<10)
	for _, c := range f.conns {
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond)) // a connection that is closed fails below
		n, _ := c.Read(b)                                           // most have no answer yet
		if strings.Contains(string(b[:n]), words) {
			return true
		}
	}
	return false
}

func addresses(net, count int) (out []string) {
	for n := range count {
		out = append(out, fmt.Sprintf("127.0.%d.%d", net, n+1))
	}
	return out
}

// Connections with unsent bodies and unread answers take neither the last
// descriptors nor the API from others, and end soon.
func TestStalledConnectionsTakeNothingFromOthers(t *testing.T) {
	v, hosts := newVictim(t, 2, nil)
	before := v.files()
	token := hosts[0].view().Leadership().Token
	f, conns := v.flood(), 1150
	if raceDetector {
		conns = 300
	}
	f.open(conns, addresses(1, 10), "GET /v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
	f.open(conns, addresses(2, 10), strings.Repeat("GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n", 100))
	peak := v.files()
	v.answers("stalled-conns", "source", func() error { return v.get("127.0.3.1", "/v1") })
	v.answers("stalled-conns", "socket", v.socket)
	if peak > descriptors-64 {
		t.Errorf("stalled-conns: %d of %d descriptors are used", peak, descriptors)
	}
	testwait.Until(t, "stalled-conns: the connections end", func() bool { return v.files() < before+50 })
	v.judgeMemory("stalled-conns", most)
	t.Logf("%d descriptors before, %d in the attack; %d MiB; leadership %v, then %v", before, peak, v.memory(), token,
		hosts[0].view().Leadership().Token)
}

// Heads that do not end cost little: 50 of 1 MiB cost 974 MB.
func TestUnfinishedHeadsCostLittle(t *testing.T) {
	v, _ := newVictim(t, 0, nil)
	before, files := v.memory(), v.files()
	var lines strings.Builder
	for n := range 1 << 17 {
		fmt.Fprintf(&lines, "%x:\r\n", n)
	}
	f := v.flood()
	f.open(50, addresses(1, 5), "GET /v1 HTTP/1.1\r\nHost: x\r\n"+lines.String())
	v.answers("unfinished-heads", "source", func() error { return v.get("127.0.3.1", "/v1") })
	testwait.Until(t, "unfinished-heads: the connections end", func() bool { return v.files() < files+10 })
	v.judgeMemory("unfinished-heads", before+100)
	t.Logf("%d MiB before, %d then", before, v.memory())
}

// Documents that stall keep no others out, small or large.
func TestStalledDocumentsStopNoCallbacks(t *testing.T) {
	v, _ := newVictim(t, 0, map[string]string{"api.trusted_proxies": "127.0.0.0/8"})
	const size = 8<<20 - 1 // three fill the share of a source, six the room of strangers
	f := v.flood()
	for _, source := range []string{"198.51.100.1", "198.51.100.2"} { // of addresses on this host none is limited
		f.open(16, addresses(1, 1),
			fmt.Sprintf("POST /v1/continue HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: %s\r\nContent-Length: %d\r\n\r\n%s", source,
				size, strings.Repeat("x", size-1)))
	}
	// The memory of the victim does not show that they are there: they may lie where a
	// start with much garbage was.
	testwait.Until(t, "the first documents are over, and the next have their room",
		func() bool { return f.answered(stalled) })
	for _, size := range []int{1000, 200 << 10, 1 << 20} {
		began := time.Now()
		web := &http.Client{Transport: &http.Transport{DialContext: from("127.0.3.1"), DisableKeepAlives: true},
			Timeout: testwait.Limit}
		req, err := http.NewRequest("POST", "http://"+v.api+"/v1/continue", strings.NewReader(strings.Repeat("x", size)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", "198.51.100.3")
		resp, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusBadRequest { // it came in, and is no document
			t.Errorf("stalled-documents: %d bytes of another source: %s %s %v", size, resp.Status, said, err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		testenv.Took(t, fmt.Sprintf("attack.stalled_documents_%d", size), time.Since(began), answerWithin)
	}
	v.judgeMemory("stalled-documents", most)
}

// A leader that can open no file hands leadership on.
func TestLeaderWithoutDescriptorsHandsOn(t *testing.T) {
	v, hosts := newVictim(t, 2, nil)
	leader := func() string { return hosts[0].view().Leadership().Peer }
	until(t, "the victim leads", func() bool { return leader() == v.id })
	v.hoard()
	until(t, "no-descriptors: another peer leads", func() bool { return leader() != "" && leader() != v.id })
}
