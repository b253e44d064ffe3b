package cluster

import (
	"crypto/tls"
	"errors"

	"golang.org/x/net/http2"
)

// Bounds of what the connection of a joiner may carry towards us. A join is one request of
// at most maxJoinBody bytes; each frame that needs no stream, as PING and SETTINGS, costs an
// answer, and a connection lasts strangerLimit.
const (
	maxJoinerFrames = 128
	maxJoinerBytes  = 4 * maxJoinBody
)

// errJoinerFrames ends a connection that carries more than a join.
var errJoinerFrames = errors.New("the connection of a joiner carries more than a join")

// joinerConn is the connection of a joiner. It counts the frames of HTTP/2 as they come in,
// before anything is done about them.
type joinerConn struct {
	*tls.Conn
	frames frameCount
}

func newJoinerConn(c *tls.Conn) *joinerConn {
	return &joinerConn{Conn: c, frames: frameCount{rest: len(http2.ClientPreface)}}
}

// Read implements net.Conn.
func (c *joinerConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.frames.countBytes(p[:n]) {
		return 0, errJoinerFrames
	}
	return n, err
}

// frameCount follows the frames of one direction of a connection.
type frameCount struct {
	frames, bytes int
	rest          int // bytes of the preface, or of the present frame's payload, to come
	head          [9]byte
	have          int // bytes of head
}

// countBytes counts what has come, and reports whether it is within the bounds.
func (f *frameCount) countBytes(b []byte) bool {
	f.bytes += len(b)
	for len(b) > 0 {
		if f.rest > 0 {
			n := min(f.rest, len(b))
			f.rest, b = f.rest-n, b[n:]
			continue
		}
		n := copy(f.head[f.have:], b)
		f.have, b = f.have+n, b[n:]
		if f.have == len(f.head) {
			f.have, f.frames = 0, f.frames+1
			f.rest = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
		}
	}
	return f.frames <= maxJoinerFrames && f.bytes <= maxJoinerBytes
}
