package simtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/inspector"
)

// The life of a simulated ramdisk.
const (
	bootLeast = time.Second
	bootRange = 4 * time.Second
	postTries = 5 // as the real one, over about 28 s
	postPause = 5 * time.Second
	postLimit = 30 * time.Second
)

// ramdisk boots and posts its document until somebody answers with anything but
// a 5xx, at another peer each time; sometimes it posts to two at once, as one
// does whose answer was lost. It ends with the boot it belongs to.
func (s *Site) ramdisk(m *Machine, boot int) {
	time.Sleep(m.Slow + bootLeast + time.Duration(s.c.rng.Int64N(int64(bootRange)))) // in a bubble
	if m.Silent {
		return
	}
	document := fmt.Appendf(nil,
		`{"inventory":{"interfaces":[{"name":"eth0","mac_address":%q,"ipv4_address":"172.24.0.9"}]},"boot":%d}`, m.MAC, boot)
	twice := s.c.rng.IntN(4) == 0
	answers := make(chan error, 2)
	posts := 1
	if twice {
		posts = 2
	}
	for range posts {
		go func() { answers <- s.post(m, boot, document) }()
	}
	var first error
	for i := range posts {
		err := <-answers
		switch {
		case i == 0:
			first = err
		case !sameAnswer(first, err):
			s.c.Oracle.broken("same-answer: %s, boot %d: one delivery was answered %v, the other %v", m.UUID, boot, first, err)
		}
	}
}

// booted reports whether a machine still runs since that boot.
func (s *Site) booted(m *Machine, boot int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.boots == boot && m.power != ironic.PowerOff
}

// sameAnswer compares two final answers; one that never came says nothing.
func sameAnswer(a, b error) bool {
	if errors.Is(a, errNoAnswer) || errors.Is(b, errNoAnswer) {
		return true
	}
	return (a == nil) == (b == nil)
}

// errNoAnswer is what a ramdisk has that gave up.
var errNoAnswer = errors.New("no answer")

// post delivers a document to peer after peer until one gives a final answer.
func (s *Site) post(m *Machine, boot int, document []byte) error {
	first := s.c.rng.IntN(len(s.c.Peers))
	if m.Asks != nil {
		first = slices.Index(s.c.Peers, m.Asks)
	}
	for try := range postTries {
		if !s.booted(m, boot) {
			return errNoAnswer
		}
		p := s.c.Peers[(first+try)%len(s.c.Peers)]
		err := errNoAnswer
		if core := p.Core(); core != nil && !p.paused() {
			ctx, cancel := context.WithTimeout(context.Background(), postLimit)
			var node string
			node, err = core.Service.Continue(ctx, document)
			cancel()
			if err == nil && node != m.UUID {
				s.c.Oracle.broken("look-up: the callback of %s was taken for %s", m.UUID, node)
			}
		}
		var said *inspector.Refusal
		if err == nil || errors.As(err, &said) && said.Status < http.StatusInternalServerError {
			return err
		}
		time.Sleep(postPause) // in a bubble
	}
	return errNoAnswer
}
