package introspection

import (
	"errors"
	"fmt"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Statuses that the state machine itself gives a callback.
const (
	statusOK         = 200
	statusBadRequest = 400
)

// Delivery is one callback: its document, the request that brought it, and
// what it is answered.
type Delivery struct {
	Document blobs.Hash    `cbor:"1,keyasint,omitzero"`
	Request  fencing.Token `cbor:"2,keyasint,omitempty"` // sequence in the queue
	// Answer is known before the callback is answered, so that a repeat gets
	// the same; it is never changed once it is known.
	Answer Answer `cbor:"3,keyasint,omitzero"`
}

// answered gives the delivery its answer unless it has one, or there is none.
func (d Delivery) answered(a Answer) Delivery {
	if !d.Document.IsZero() && d.Answer.IsZero() {
		d.Answer = a
	}
	return d
}

// Answer is what a callback gets over HTTP. Zero means that it is not known yet.
type Answer struct {
	Status  int    `cbor:"1,keyasint,omitempty"` // 200, or 400 to 599
	Message string `cbor:"2,keyasint,omitempty"` // why it is not 200; at most 16 KiB
}

// IsZero reports whether the answer is not known yet.
func (a Answer) IsZero() bool { return a == Answer{} }

func (a Answer) validate() error {
	switch {
	case a.IsZero():
		return nil
	case a.Status == statusOK && a.Message != "":
		return errors.New("an answer of status 200 carries a message")
	case a.Status != statusOK && (a.Status < 400 || a.Status > 599):
		return fmt.Errorf("a callback is answered 200 or 400 to 599, not %d", a.Status)
	case a.Status != statusOK && a.Message == "":
		return fmt.Errorf("an answer of status %d without a message", a.Status)
	}
	return valid.Length("answer", a.Message, 0, MaxErrorText)
}
