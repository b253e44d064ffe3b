//go:build e2e

package attacktest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// h2Flood is one way to keep a server of HTTP/2 busy or to fill its memory. It writes the
// n-th round to a connection that has said its preface.
type h2Flood func(f *http2.Framer, head []byte, n uint32) error

// h2Floods are those that servers of HTTP/2 have fallen to.
func h2Floods() map[string]h2Flood {
	open := func(f *http2.Framer, head []byte, stream uint32, end bool) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: head, EndHeaders: true,
			EndStream: end})
	}
	return map[string]h2Flood{
		"rapid-reset": func(f *http2.Framer, head []byte, n uint32) error { // CVE-2023-44487
			if err := open(f, head, 2*n+1, true); err != nil {
				return err
			}
			return f.WriteRSTStream(2*n+1, http2.ErrCodeCancel)
		},
		"made-you-reset": func(f *http2.Framer, head []byte, n uint32) error { // CVE-2025-8671
			if err := open(f, head, 2*n+1, false); err != nil {
				return err
			}
			return f.WriteWindowUpdate(2*n+1, 1<<31-1)
		},
		"continuation": func(f *http2.Framer, head []byte, n uint32) error { // CVE-2024-27316
			if n == 0 {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head})
			}
			return f.WriteContinuation(1, false, bytes.Repeat([]byte{0x0f, 0x0d, 0x01, 'x'}, 256))
		},
		"settings": func(f *http2.Framer, _ []byte, n uint32) error { // CVE-2019-9515
			return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<16 + n%2})
		},
		"ping": func(f *http2.Framer, _ []byte, _ uint32) error { return f.WritePing(false, [8]byte{}) }, // CVE-2019-9512
		"empty-data": func(f *http2.Framer, head []byte, n uint32) error { // CVE-2019-9518
			if n == 0 {
				return open(f, head, 1, false)
			}
			return f.WriteData(1, false, nil)
		},
		"priority": func(f *http2.Framer, _ []byte, n uint32) error { // CVE-2019-9513
			return f.WritePriority(2*n+1, http2.PriorityParam{StreamDep: 0, Weight: uint8(n)})
		},
		"unknown-frames": func(f *http2.Framer, _ []byte, _ uint32) error { return f.WriteRawFrame(0xfa, 0, 0, nil) },
	}
}

// joinHead is the head of a request of a joiner.
func joinHead(t *testing.T) []byte {
	t.Helper()
	var head bytes.Buffer
	e := hpack.NewEncoder(&head)
	for _, field := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "x"},
		{":path", "/v1/join"}} {
		if err := e.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			t.Fatal(err)
		}
	}
	return head.Bytes()
}

// h2Rounds are more than a connection may cost, and take some seconds where all are taken.
const h2Rounds = 400_000

// h2Answers is more than the answers to as many frames as a join has: each of 400,000 would
// be answered with 9 or 17 bytes.
const h2Answers = 64 << 10

// endsWithin is for how long the end of a flooded connection is waited for: less than the 25 s
// after which a stranger's ends in any case.
const endsWithin = 10 * time.Second

// rounds floods a connection and returns how many rounds were written before it ended, and
// how many bytes came back, which are read, as who wants to go on does. toTheEnd waits for the
// end of a connection that took all: sockets hold what their other end has not read, or does
// not want, and what it ended after that counts as one round less.
func rounds(t *testing.T, conn net.Conn, flood h2Flood, most uint32, toTheEnd bool) (done uint32, heard int64) {
	t.Helper()
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	over, back := make(chan error, 1), &atomic.Int64{}
	go func() {
		for b := make([]byte, 4<<10); ; {
			n, err := conn.Read(b)
			back.Add(int64(n))
			if err != nil {
				over <- err
				return
			}
		}
	}()
	out := bufio.NewWriterSize(conn, 4<<10) // what does not fit into it fails at once
	if _, err := out.WriteString(http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	f, head := http2.NewFramer(out, nil), joinHead(t)
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for ; done < most; done++ {
		if flood(f, head, done) != nil {
			return done, back.Load()
		}
	}
	if out.Flush() != nil {
		return done - 1, back.Load()
	}
	if toTheEnd {
		if err := conn.SetReadDeadline(time.Now().Add(endsWithin)); err != nil {
			t.Fatal(err)
		}
		err := testwait.ReceiveWithin(t, 2*endsWithin, over, "the end of a flooded connection")
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return done - 1, back.Load()
		}
	}
	return done, back.Load()
}

// anonymous is TLS to the peers' port without a certificate.
func (v *victim) anonymous(certs ...tls.Certificate) net.Conn {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.Context(), limit)
	defer cancel()
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13,
		Certificates: certs}}
	conn, err := d.DialContext(ctx, "tcp", v.host.Config.Cluster.Listen)
	if err != nil {
		v.Fatal(err)
	}
	return conn
}

// operator has the victim issue a certificate.
func (v *victim) operator() tls.Certificate {
	v.Helper()
	web := &http.Client{Timeout: limit, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", v.host.Config.Socket)
		}}}
	resp, err := web.Post("http://socket/v1/operators/mallory", "application/json", strings.NewReader(""))
	if err != nil {
		v.Fatal(err)
	}
	defer resp.Body.Close()
	var made admin.Credentials
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil {
		v.Fatal(resp.Status, err)
	}
	pair, err := tls.X509KeyPair([]byte(made.Cert+made.CA), []byte(made.Key))
	if err != nil {
		v.Fatal(err)
	}
	if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
		v.Fatal(err)
	}
	return pair
}

// Floods of HTTP/2 on the peers' port, which alone speaks it. One without a certificate ends
// after as many frames as a join has; one of an operator, who may do everything, takes neither
// memory nor the API from others.
func TestHTTP2FloodsEndOrCostLittle(t *testing.T) {
	v, _ := newVictim(t, 0, nil)
	before, known, attacks := v.memory(), v.operator(), 0
	for name, flood := range h2Floods() { // order-free: each on connections of its own
		attacks++
		done, heard := rounds(t, v.anonymous(), flood, h2Rounds, true)
		if done == h2Rounds || heard > h2Answers {
			t.Errorf("http2-flood: %s of a stranger: %d rounds were taken, and answered with %d bytes", name, done, heard)
		}
		v.answers("http2-"+name, "source", func() error { return v.get("127.0.3.1", "/v1") })
		ends := make(chan uint32, 1)
		go func() {
			done, _ := rounds(t, v.anonymous(known), flood, h2Rounds, false)
			ends <- done
		}()
		v.answers("http2-operator-"+name, "source", func() error { return v.get("127.0.3.1", "/v1") })
		v.answers("http2-operator-"+name, "socket", v.socket)
		t.Logf("%s: a stranger was cut off after %d rounds, an operator after %d of %d", name, done,
			testwait.Receive(t, ends, "the flood of an operator ends"), h2Rounds)
	}
	v.judgeMemory("http2-floods", before+400) // what a collector has not taken yet on a busy machine
	t.Logf("%d MiB before, %d then", before, v.memory())
	testenv.Count(t, "security.http2_floods", float64(2*attacks))
}

// No other port of a peer speaks HTTP/2.
func TestTheAPISpeaksNoHTTP2(t *testing.T) {
	v, _ := newVictim(t, 0, nil)
	for network, at := range map[string]string{"tcp": v.api, "unix": v.host.Config.Socket} {
		conn, err := new(net.Dialer).DialContext(t.Context(), network, at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
			t.Fatal(err)
		}
		if err := http2.NewFramer(conn, nil).WriteSettings(); err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(conn)
		if !bytes.HasPrefix(said, []byte("HTTP/1.1 ")) {
			t.Errorf("http2-nowhere-else: %s answers the preface with %.60q, %v", at, said, err)
		}
	}
}
