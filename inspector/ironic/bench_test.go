package ironic

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"
)

// canned answers every request on a connection with the same bytes: a server
// that costs next to nothing, so that what is measured is the client.
func canned(b *testing.B, status int, body string) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = listener.Close() }) // ends the loop below
	reply := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status,
		http.StatusText(status), len(body), body)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go respond(conn, reply)
		}
	}()
	return "http://" + listener.Addr().String()
}

// respond answers each header with an empty line after it; no request here has
// a body with one.
func respond(conn net.Conn, reply []byte) {
	defer conn.Close() // the client went first
	lines := bufio.NewScanner(conn)
	lines.Split(bufio.ScanLines)
	for lines.Scan() {
		if len(lines.Bytes()) > 0 {
			continue
		}
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}

func BenchmarkNode(b *testing.B) {
	c, err := New(conf(canned(b, 200, aNode)), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	ctx := WithGuard(b.Context(), func() error { return nil })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Node(ctx, node1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeNode reads the answer to a patch.
func BenchmarkDecodeNode(b *testing.B) {
	raw := patched()
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := decodeNode(raw); err != nil {
			b.Fatal(err)
		}
	}
}

// patched is aNode among the fields that nobody asked for.
func patched() []byte {
	raw := []byte(
		`{"instance_info": {}, "links": [{"href": "http://ironic/v1/nodes/1", "rel": "self"}, {"href": "http://ironic/nodes/1", "rel": "bookmark"}]`)
	for n := range 60 {
		raw = fmt.Appendf(raw, `, "field_%d": "2026-11-21T18:35:00+00:00"`, n)
	}
	return append(append(raw, ','), aNode[1:]...)
}
