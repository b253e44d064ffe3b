package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// stalled is a body that stops before its end.
type stalled struct {
	left int
	cut  chan struct{} // closed by the deadline
}

func (s *stalled) Read(p []byte) (int, error) {
	if s.left == 0 {
		<-s.cut // in a bubble
		return 0, io.ErrUnexpectedEOF
	}
	n := min(len(p), s.left)
	s.left -= n
	return n, nil
}

// deadlined is a recorder whose read deadline cuts the body.
type deadlined struct {
	*httptest.ResponseRecorder
	cut *ending
}

// ending ends a body once.
type ending struct {
	ended atomic.Bool
	body  chan struct{} // closed by it
}

func (c *ending) end() {
	if c.ended.CompareAndSwap(false, true) {
		close(c.body)
	}
}

func (d deadlined) SetReadDeadline(time.Time) error {
	d.cut.end()
	return nil
}

// flood begins documents that are never sent to their end.
type flood struct {
	b       bodies
	refused chan error
	cuts    []*ending
}

func (f *flood) stall(from netip.Prefix, count, size int) {
	for range count {
		ends := &ending{body: make(chan struct{})}
		f.cuts = append(f.cuts, ends)
		r := httptest.NewRequest("POST", "/", &stalled{size - 1, ends.body})
		r.ContentLength = int64(size)
		go func() {
			w := deadlined{httptest.NewRecorder(), ends}
			_, release, err := f.b.receive(w, r, &sender{source: from}, MaxDocument, nil)
			release()
			f.refused <- err
		}()
		synctest.Wait()
	}
}

func (f *flood) send(from netip.Prefix, size int) (release func(), err error) {
	r := httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", size)))
	_, release, err = f.b.receive(httptest.NewRecorder(), r, &sender{source: from}, MaxDocument, nil)
	return release, err
}

func visitors(n int) (out []netip.Prefix) {
	for i := range n {
		out = append(out, admission.SourceOf(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})))
	}
	return out
}

// TestStalledDocumentsKeepNoOthersOut: those of the source that holds the most end
// for others, the oldest first, and what is held stays within the bound.
func TestStalledDocumentsKeepNoOthersOut(t *testing.T) {
	for _, size := range []int{100_000, 1 << 20, MaxDocument} {
		synctest.Test(t, func(t *testing.T) {
			f := &flood{b: newBodies(), refused: make(chan error, 1000)}
			from := visitors(4)
			f.stall(from[0], 8, MaxDocument)
			f.stall(from[1], 8, MaxDocument)
			f.stall(from[2], 100, admission.SmallBody)
			began := len(f.refused)
			for range 4 {
				release, err := f.send(from[3], size)
				defer release()
				if held := f.b.Held(); err != nil && held < admission.AllBodies/4 || held > admission.AllBodies {
					t.Errorf("body-room: a document of %d bytes while others stall: %v, %d bytes held", size, err, held)
				}
				if err != nil && size <= 1<<20 {
					t.Errorf("body-room: a document of %d bytes while others stall: %v", size, err)
				}
			}
			synctest.Wait()
			if size == MaxDocument && len(f.refused) == began {
				t.Error("body-room: no stalled document gave way")
			}
			for len(f.refused) > 0 {
				if err := <-f.refused; status(err) != 503 {
					t.Errorf("body-room: a document that gave way is answered %v", err)
				}
			}
			for _, c := range f.cuts {
				c.end()
			}
			synctest.Wait()
		})
	}
}

// TestRoomForSmallDocuments: large ones that came in leave it.
func TestRoomForSmallDocuments(t *testing.T) {
	b := newBodies()
	taken := 0
	for _, from := range visitors(3) {
		for range admission.AllBodies / MaxDocument {
			if _, err := b.Take(from, MaxDocument+1); err == nil {
				taken++
			}
		}
	}
	if held := b.Held(); held > admission.BodiesOfStrangers || held < admission.BodiesOfStrangers-2*MaxDocument {
		t.Errorf("body-reserve: %d large documents hold %d bytes", taken, held)
	}
	for n := range admission.AllBodies / MaxDocument { // machines that are known have the rest
		room, err := b.Reserve(t.Context(), admission.Named(fmt.Sprint(n)), true, MaxDocument+1, 0, func() {})
		if err == nil {
			room.Settle()
		}
	}
	if held := b.Held(); held > admission.AllBodies*3/4 || held < admission.AllBodies*3/4-2*MaxDocument {
		t.Errorf("body-reserve: large documents hold %d bytes", held)
	}
	f := &flood{b: b}
	for range admission.AllBodies / 4 / (admission.SmallBody + 1) {
		release, err := f.send(netip.Prefix{}, admission.SmallBody)
		defer release()
		if err != nil {
			t.Fatalf("body-reserve: a small document: %v", err)
		}
	}
}

// answersOfSource is how many bytes of answers one source may leave untaken.
const answersOfSource = 16 << 20

// TestUnreadAnswersAreBounded: documents that callers do not take are few at once.
func TestUnreadAnswersAreBounded(t *testing.T) {
	srv := httptest.NewServer(public(&fake{data: make([]byte, MaxDocument)}, NoAuth()))
	var callers []net.Conn
	defer func() {
		for _, c := range callers {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		srv.Close()
	}()
	answered := make(map[int]int)
	for range answersOfSource/MaxDocument + 3 {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		callers = append(callers, conn)
		if _, err := io.WriteString(conn, "GET /v1/introspection/n/data HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil) // and not the document
		if err != nil {
			t.Fatal(err)
		}
		answered[resp.StatusCode]++
	}
	if answered[200] != answersOfSource/MaxDocument || answered[503] != 3 {
		t.Errorf("answers-room: %v of callers who take no document, want %d times 200", answered, answersOfSource/MaxDocument)
	}
}
