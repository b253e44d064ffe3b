package fsm

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of one event. What does not fit is cut: the log line, the record or the
// remediation that the event is about has the whole text.
const (
	// MaxEventText is the greatest length of a text or of a field's value, in bytes.
	MaxEventText = 512
	// MaxEventFields is the greatest number of fields.
	MaxEventFields = 12

	maxEventWord = 32 // an action, or the name of a field
)

// Topic is what an event is about. The numbers are part of the log.
type Topic uint8

// The topics. The last three have no command of their own: peers report them, see
// [ReportEvents].
const (
	TopicLeadership    Topic = 1
	TopicPXE           Topic = 2
	TopicFloatingIP    Topic = 3
	TopicMember        Topic = 4
	TopicIntrospection Topic = 5
	TopicLease         Topic = 6
	TopicRemediation   Topic = 7
	TopicRule          Topic = 8
	TopicFilter        Topic = 9
	TopicWarning       Topic = 10
	TopicAudit         Topic = 11
)

var topicNames = [...]string{"", "leadership", "pxe", "floating-ip", "member", "introspection", "lease", "remediation", "rule", "filter", "warning", "audit"}

// String returns the topic as the API names it.
func (t Topic) String() string { return nameOf(topicNames[:], "topic", uint8(t)) }

// MarshalText implements encoding.TextMarshaler.
func (t Topic) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

func (t Topic) known() bool { return t >= TopicLeadership && t <= TopicAudit }

// ParseTopic reads the API's name of a topic.
func ParseTopic(name string) (Topic, bool) {
	for i := 1; i < len(topicNames); i++ {
		if topicNames[i] == name {
			return Topic(i), true
		}
	}
	return 0, false
}

// TopicNames returns the names of all topics, in the order of their numbers.
func TopicNames() []string { return append([]string(nil), topicNames[1:]...) }

// EventID is an event's place in the history of the cluster: all events have
// different ones, and a later event a greater one. It is the same on every peer.
type EventID struct {
	Incarnation uint64 // of the cluster
	Index       uint64 // of the log entry that the event was derived from
	Seq         uint32 // within that entry, from 0 on
}

// IsZero reports whether the ID is that of no event.
func (id EventID) IsZero() bool { return id == EventID{} }

// Compare orders IDs, as cmp.Compare does.
func (id EventID) Compare(other EventID) int {
	return cmp.Or(cmp.Compare(id.Incarnation, other.Incarnation), cmp.Compare(id.Index, other.Index), cmp.Compare(id.Seq, other.Seq))
}

// String returns incarnation, index and number within the entry, with dashes.
func (id EventID) String() string {
	return fmt.Sprintf("%d-%d-%d", id.Incarnation, id.Index, id.Seq)
}

// ParseEventID reads what String wrote.
func ParseEventID(text string) (EventID, error) {
	parts := strings.Split(text, "-")
	if len(parts) != 3 {
		return EventID{}, fmt.Errorf("event ID %q is not INCARNATION-INDEX-NUMBER", text)
	}
	var numbers [3]uint64
	for i, bits := range [...]int{64, 64, 32} {
		n, err := strconv.ParseUint(parts[i], 10, bits)
		if err != nil {
			return EventID{}, fmt.Errorf("event ID %q is not INCARNATION-INDEX-NUMBER", text)
		}
		numbers[i] = n
	}
	return EventID{Incarnation: numbers[0], Index: numbers[1], Seq: uint32(numbers[2])}, nil
}

// ClusterEvent says that something happened to the cluster or to a node. It holds
// facts; the sentence is made by its readers, so that it may change without a new
// log version. An event that a peer reported brings its sentence as Text.
type ClusterEvent struct {
	ID     EventID           `cbor:"-"`
	Topic  Topic             `cbor:"1,keyasint"`
	Millis int64             `cbor:"2,keyasint,omitempty"` // wall clock when it happened, Unix ms
	Action string            `cbor:"3,keyasint"`           // what happened, in one word
	Peer   string            `cbor:"4,keyasint,omitempty"` // name of the host
	Node   string            `cbor:"5,keyasint,omitempty"` // UUID of the bare-metal node
	Text   string            `cbor:"6,keyasint,omitempty"`
	Fields map[string]string `cbor:"7,keyasint,omitempty"` // must not be changed
}

// storedEvent is an event as the ring and snapshots hold it.
type storedEvent struct {
	ID    EventID
	topic Topic
	body  []byte // CBOR of the ClusterEvent; never changes
}

// writtenEvent is a stored event's form in a snapshot.
type writtenEvent struct {
	Incarnation uint64 `cbor:"1,keyasint,omitempty"`
	Index       uint64 `cbor:"2,keyasint"`
	Seq         uint32 `cbor:"3,keyasint,omitempty"`
	Body        []byte `cbor:"4,keyasint,omitempty"` // none: an event that was dropped
}

func (e storedEvent) written() writtenEvent {
	return writtenEvent{Incarnation: e.ID.Incarnation, Index: e.ID.Index, Seq: e.ID.Seq, Body: e.body}
}

func (w writtenEvent) id() EventID {
	return EventID{Incarnation: w.Incarnation, Index: w.Index, Seq: w.Seq}
}

// event decodes a stored event. The ring holds nothing that cannot be read: what
// a snapshot brought was read once, when it was loaded.
func (e storedEvent) event() ClusterEvent {
	var out ClusterEvent
	if err := unmarshal(e.body, &out); err != nil {
		panic(fmt.Errorf("fsm: event %v cannot be read: %w", e.ID, err))
	}
	out.ID = e.ID
	return out
}

// EventText makes a text fit for an event: it is cut to MaxEventText bytes, and
// what is not UTF-8 in it is replaced.
func EventText(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= MaxEventText {
		return text
	}
	const more = "…"
	at := MaxEventText - len(more)
	for !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at] + more
}
