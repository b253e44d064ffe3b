package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/haconfig"
)

const (
	reviewRate       = 200 // a second
	reviewTurns      = 4   // of the peer and of the bare server
	reviewTime       = 5 * time.Second
	reviewWarm       = time.Second // before each turn counts: connections, and what is read first
	reviewNamespaces = 20
	reviewConns      = 64 // as many reviews as a peer works on at once
	reviewLimit      = 10 * time.Second
	// reviewPatched is in every answer that is as it should be.
	reviewPatched = `"patchType":"JSONPatch"`
)

// reviewer sends reviews to one server at a steady rate, however long the answers
// take. It speaks HTTP by webConn: net/http's client costs more than the server.
type reviewer struct {
	address string
	pid     int           // of the server
	free    chan *webConn // that carry no review; nil: one that is to be made

	took   Sample // from when each was due
	late   Sample // from when each was due until it was sent: this program's own share
	failed []error
	used   time.Duration // of processor time by the server, while reviews were sent
	sent   int           // those included that did not count
}

func newReviewer(address string, pid int) *reviewer {
	r := &reviewer{address: address, pid: pid, free: make(chan *webConn, reviewConns)}
	for range reviewConns {
		r.free <- nil
	}
	return r
}

// close ends the connections; no review is under way.
func (r *reviewer) close() (err error) {
	for range reviewConns {
		if conn := <-r.free; conn != nil {
			err = errors.Join(err, conn.close())
		}
	}
	return err
}

// turn sends reviews for a while.
func (r *reviewer) turn(ctx context.Context) error {
	n, warm := reviewRate*int((reviewWarm+reviewTime)/time.Second), reviewRate*int(reviewWarm/time.Second)
	took, late, said := make(Sample, n), make(Sample, n), make([]error, n)
	object := reviewed()
	before, err := cpuOf(r.pid)
	if err != nil {
		return err
	}
	begin := time.Now()
	var asking sync.WaitGroup
	for i := range n {
		due := begin.Add(time.Duration(i) * time.Second / reviewRate)
		sleepUntil(due)
		if ctx.Err() != nil {
			asking.Wait()
			return context.Cause(ctx)
		}
		asking.Go(func() {
			late[i] = time.Since(due)
			said[i] = r.review(object, i)
			if took[i] = time.Since(due); said[i] != nil {
				took[i] = max(took[i], reviewLimit)
			}
		})
	}
	asking.Wait()
	after, err := cpuOf(r.pid)
	if err != nil {
		return err
	}
	r.used, r.sent = r.used+after-before, r.sent+n
	r.took, r.late = append(r.took, took[warm:]...), append(r.late, late[warm:]...)
	r.failed = append(r.failed, slices.DeleteFunc(said[warm:], func(err error) bool { return err == nil })...)
	return nil
}

// sleepUntil returns at a moment. A timer of Go's runtime would be up to a
// millisecond late, since what it waits in counts in those.
func sleepUntil(due time.Time) {
	for left := time.Until(due); left > 0; left = time.Until(due) {
		span := unix.NsecToTimespec(left.Nanoseconds())
		_ = unix.Nanosleep(&span, nil) // a signal ends it early
	}
}

// review sends one and looks whether it was answered with a patch.
func (r *reviewer) review(object string, i int) (err error) {
	body := fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u%d","kind":{"group":"apps","version":"v1","kind":"Deployment"},
"namespace":"ns-%d","name":"demo","operation":"CREATE","object":%s}}`, i, i%reviewNamespaces, object)
	conn := <-r.free
	defer func() { r.free <- conn }()
	if conn == nil {
		if conn, err = dialReview(r.address); err != nil {
			return err
		}
	}
	code, text, err := conn.do(http.MethodPost, haconfig.PathMutate, body)
	if err != nil {
		_ = conn.close() // what is wrong with it is known
		conn = nil
		return err
	}
	if !bytes.Contains(text, []byte(reviewPatched)) {
		return fmt.Errorf("review %d: %d: %s", i, code, text)
	}
	return nil
}

// dialReview opens a connection. Who it is does not matter here: the CA is in the log
// of the peer alone.
func dialReview(address string) (*webConn, error) {
	dialer := &net.Dialer{Timeout: reviewLimit}
	conn, err := tls.DialWithDialer(dialer, "tcp", address,
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		return nil, err
	}
	return &webConn{conn: conn, in: bufio.NewReader(conn), host: address}, nil
}

// ms is a quantile as the report has it.
func (r *reviewer) ms(q float64) float64 { return float64(r.took.Quantile(q).Microseconds()) / 1000 }

// String tells what it was like.
func (r *reviewer) String() string {
	text := fmt.Sprintf(
		"p50 %.2f, p90 %.2f, p99 %.2f, max %.2f ms, n=%d; sent late by p50 %v, p99 %v; processor time each %v",
		r.ms(0.5), r.ms(0.9), r.ms(0.99), r.ms(1), len(r.took), short(r.late.P50()), short(r.late.Quantile(0.99)),
		short(r.used/time.Duration(max(r.sent, 1))))
	if len(r.failed) > 0 {
		text += fmt.Sprintf("; %d were not answered with a patch and count as %v, the first: %v", len(r.failed), reviewLimit,
			r.failed[0])
	}
	return text
}
