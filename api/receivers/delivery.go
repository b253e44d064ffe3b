package receivers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/deliveries"
	"github.com/trivet-ha/trivet/fsm/eventring"
)

// Bounds of one delivery; the event that goes beyond maxBytes is the next one's first.
const (
	maxBatch = 500
	maxBytes = 256 << 10 // of the events; one alone may have up to 15 KiB
)

// Types of messages.
const (
	typeEvents = "events"
	typePing   = "ping"
)

// message is the body of a request. The same events make the same bytes on every peer.
type message struct {
	Type      string `json:"type"`
	Timestamp string `json:"timestamp"` // of the newest event
	Data      Data   `json:"data"`
}

// Data is what a message is about.
type Data struct {
	Cluster  string            `json:"cluster"` // its ID
	Receiver string            `json:"receiver"`
	Gap      *Gap              `json:"gap,omitempty"`
	Events   []json.RawMessage `json:"events"` // oldest first, as GET /v1/events has them
	Last     string            `json:"last,omitempty"`
}

// Gap says that events are gone that the receiver was not sent.
type Gap struct {
	After   string `json:"after"`             // the event up to which it has them
	Through string `json:"through,omitempty"` // the last one that is gone; "": that is not known
	Reason  string `json:"reason"`
}

// Why events are gone.
const (
	whyDropped = "the receiver did not take them while the cluster kept them"
	whyFounded = "the cluster was founded again, from a snapshot or with fewer peers; what followed may be gone, or come again under other IDs"
)

// delivery is what a receiver is sent next.
type delivery struct {
	id     string
	body   []byte
	until  eventring.ID
	oldest int64 // wall clock of its oldest event, Unix ms; 0: it has none
	gap    bool
}

// nextDelivery returns what follows the receiver's progress: up to the end of the delivery
// that was announced, or as much as one may hold. ok is false when nothing that the receiver
// wants has happened; passed is then the place up to which that is so.
func (r *Receiver) nextDelivery(v fsm.View, p deliveries.Progress) (d delivery, passed eventring.ID, ok bool) {
	data := Data{Cluster: v.ClusterID(), Receiver: r.name, Events: noEvents()}
	from, ring := p.Taken, v.Events()
	d.until = from
	switch gone := ring.Forgotten(); {
	case from.Compare(gone) < 0:
		data.Gap = &Gap{After: from.String(), Through: gone.String(), Reason: whyDropped}
		from, d.until = gone, gone
	case p.Cut:
		data.Gap = &Gap{After: from.String(), Reason: whyFounded}
	}
	announced := p.Until.Compare(from) >= 0 && !p.Until.IsZero()
	newest, size := int64(0), 0
	for stored := range ring.After(from) {
		if announced && stored.ID().Compare(p.Until) > 0 {
			d.until = p.Until
			break
		}
		if !r.filter.WantsTopic(stored.Topic()) {
			d.until = stored.ID()
			continue
		}
		e := stored.Decode()
		text := encode(events.Of(e))
		if n := len(data.Events); n == maxBatch || n > 0 && size+len(text) > maxBytes {
			break
		}
		if len(data.Events) == 0 {
			d.oldest = e.Millis
		}
		data.Events, size, newest, d.until = append(data.Events, text), size+len(text), e.Millis, stored.ID()
	}
	if d.until == p.Taken || len(data.Events) == 0 && data.Gap == nil {
		return delivery{}, d.until, false
	}
	data.Last, d.gap = d.until.String(), data.Gap != nil
	stamp := time.UnixMilli(newest).UTC().Format(time.RFC3339Nano)
	d.body = encode(message{Type: typeEvents, Timestamp: stamp, Data: data})
	d.id = idOf(d.body)
	return d, d.until, true
}

func noEvents() []json.RawMessage { return []json.RawMessage{} }

// idOf names a message by its bytes: another content is never taken for a repeat.
func idOf(body []byte) string {
	sum := sha256.Sum256(body)
	return "msg_" + hex.EncodeToString(sum[:16])
}

// encode writes JSON of types that always have one.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("receivers: encode %T: %w", v, err))
	}
	return text
}
