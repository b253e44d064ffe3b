package cluster

import (
	"bytes"
	"slices"
	"testing"

	"golang.org/x/net/http2"
)

// A join passes however it is cut, and what is more than a join does not.
func TestJoinersFramesAreCounted(t *testing.T) {
	wire := func(write func(f *http2.Framer) error) []byte {
		b := bytes.NewBufferString(http2.ClientPreface)
		if err := write(http2.NewFramer(b, nil)); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	join := wire(func(f *http2.Framer) error {
		for n := range maxJoinBody >> 10 { // as small frames as a client of ours ever sends
			if err := f.WriteData(1, false, bytes.Repeat([]byte{byte(n)}, 1<<10)); err != nil {
				return err
			}
		}
		return f.WriteData(1, true, nil)
	})
	for name, c := range map[string]struct {
		sent []byte
		ok   bool
	}{
		"a join": {join, true},
		"pings": {wire(func(f *http2.Framer) (err error) {
			for range maxJoinerFrames + 1 {
				if err == nil {
					err = f.WritePing(false, [8]byte{})
				}
			}
			return err
		}), false},
		"large frames": {wire(func(f *http2.Framer) (err error) {
			for range maxJoinerBytes/maxPortFrame + 1 {
				if err == nil {
					err = f.WriteRawFrame(0xff, 0, 0, make([]byte, maxPortFrame))
				}
			}
			return err
		}), false},
	} {
		for _, cut := range []int{1, 7, 9, 24, 4096, len(c.sent)} {
			f, ok := newJoinerConn(nil).frames, true
			for part := range slices.Chunk(c.sent, cut) {
				ok = ok && f.countBytes(part)
			}
			if ok != c.ok {
				t.Errorf("joiner-frames: %s in pieces of %d bytes: taken: %v", name, cut, ok)
			}
		}
	}
}
