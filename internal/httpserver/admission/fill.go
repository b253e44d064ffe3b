package admission

import (
	"errors"
	"io"
)

// firstPiece is the room that a body gets before its first byte came. It does not
// depend on the announced length.
const firstPiece = 64 << 10

// errLong is of a body that in must have refused.
var errLong = errors.New("the body is longer than announced or allowed")

// Fill reads a body to its end, with memory for no more than twice what came. announced is
// how long it is said to be, or negative; in fails after most bytes, and the room has as many
// and one more. What is not needed of it is given back. The error is ErrBusy where the room
// was lost, and that of in otherwise.
func (r *Room) Fill(in io.Reader, announced, most int64) ([]byte, error) {
	if announced >= 0 {
		most = min(most, announced)
	}
	var body []byte
	for {
		if len(body) == cap(body) {
			size := int(min(int64(max(2*cap(body), firstPiece)), most+1)) // 1 more sees the end without growing
			if size <= cap(body) {
				return nil, errLong
			}
			body = append(make([]byte, 0, size), body...)
		}
		n, err := in.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if r.Lost() {
			return nil, ErrBusy // err, if any, comes of that
		}
		if errors.Is(err, io.EOF) {
			r.shrink(int64(cap(body)))
			return body, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
