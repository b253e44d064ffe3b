// Package eventring keeps the newest events of the cluster: what happened, derived from
// the commands of the log or reported by a peer.
package eventring

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Bounds of one event. What does not fit is cut: the log line, the record or the
// remediation that the event is about has the whole text.
const (
	// MaxText is the greatest length of a text or of a field's value, in bytes.
	MaxText = 512
	// MaxFields is the greatest number of fields.
	MaxFields = 12

	maxWord = 32 // an action, or the name of a field
)

// Topic is what an event is about. The numbers are part of the log.
type Topic uint8

// The topics. Filter, warning and audit have no command of their own: peers report
// them, see [ReportEvents].
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
	TopicHardware      Topic = 12 // since log version 3
	TopicBoot          Topic = 13 // since log version 3
)

var topicNames = [...]string{"", "leadership", "pxe", "floating-ip", "member", "introspection", "lease", "remediation",
	"rule", "filter", "warning", "audit", "hardware", "boot"}

// String returns the topic as the API names it.
func (t Topic) String() string { return codec.NameOf(topicNames[:], "topic", uint8(t)) }

// MarshalText implements encoding.TextMarshaler.
func (t Topic) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

func (t Topic) known() bool { return t >= TopicLeadership && t <= TopicAudit }

// ParseTopic reads the API's name of a topic.
func ParseTopic(name string) (Topic, bool) {
	i := slices.Index(topicNames[1:], name)
	return Topic(i + 1), i >= 0
}

// TopicNames returns the names of all topics, in the order of their numbers.
func TopicNames() []string { return append([]string(nil), topicNames[1:]...) }

// ID is an event's place in the history of the cluster: all events have
// different ones, and a later event a greater one. It is the same on every peer.
type ID struct {
	Incarnation uint64 `cbor:"1,keyasint,omitempty"` // of the cluster
	Index       uint64 `cbor:"2,keyasint,omitempty"` // of the log entry that the event was derived from
	Seq         uint32 `cbor:"3,keyasint,omitempty"` // within that entry, from 0 on
}

// IsZero reports whether the ID is that of no event.
func (id ID) IsZero() bool { return id == ID{} }

// Compare orders IDs, as cmp.Compare does.
func (id ID) Compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Incarnation, other.Incarnation), cmp.Compare(id.Index, other.Index),
		cmp.Compare(id.Seq, other.Seq))
}

// String returns incarnation, index and number within the entry, with dashes.
func (id ID) String() string {
	return fmt.Sprintf("%d-%d-%d", id.Incarnation, id.Index, id.Seq)
}

// ParseID reads what String wrote.
func ParseID(text string) (ID, error) {
	parts := strings.Split(text, "-")
	if len(parts) != 3 {
		return ID{}, fmt.Errorf("event ID %q is not INCARNATION-INDEX-NUMBER", text)
	}
	var numbers [3]uint64
	for i, bits := range [...]int{64, 64, 32} {
		n, err := strconv.ParseUint(parts[i], 10, bits)
		if err != nil {
			return ID{}, fmt.Errorf("event ID %q is not INCARNATION-INDEX-NUMBER", text)
		}
		numbers[i] = n
	}
	return ID{Incarnation: numbers[0], Index: numbers[1], Seq: uint32(numbers[2])}, nil
}

// Event says that something happened to the cluster or to a node. It holds
// facts; the sentence is made by its readers, so that it may change without a new
// log version. An event that a peer reported brings its sentence as Text.
type Event struct {
	ID     ID                `cbor:"-"`
	Topic  Topic             `cbor:"1,keyasint"`
	Millis int64             `cbor:"2,keyasint,omitempty"` // wall clock when it happened, Unix ms
	Action string            `cbor:"3,keyasint"`           // what happened, in one word
	Peer   string            `cbor:"4,keyasint,omitempty"` // name of the host
	Node   string            `cbor:"5,keyasint,omitempty"` // UUID of the bare-metal node
	Text   string            `cbor:"6,keyasint,omitempty"`
	Fields map[string]string `cbor:"7,keyasint,omitempty"` // must not be changed
}

// Stored is an event in the ring that is not decoded yet: to look at its ID and
// topic costs nothing.
type Stored struct {
	id    ID
	topic Topic
	body  []byte // CBOR of the Event; never changes
}

// ID returns the event's ID.
func (e Stored) ID() ID { return e.id }

// Topic returns what the event is about.
func (e Stored) Topic() Topic { return e.topic }

// Mentions reports whether the encoded event contains a text, such as a node's
// UUID. It may say yes where the text stands in another field.
func (e Stored) Mentions(text string) bool { return bytes.Contains(e.body, []byte(text)) }

// Decode returns the event. The ring holds nothing that cannot be read: what a snapshot
// brought was read once, when it was loaded.
func (e Stored) Decode() Event {
	var out Event
	if err := codec.Unmarshal(e.body, &out); err != nil {
		panic(fmt.Errorf("fsm: event %v cannot be read: %w", e.id, err))
	}
	out.ID = e.id
	return out
}

// written is a stored event's form in a snapshot.
type written struct {
	ID
	Body []byte `cbor:"4,keyasint,omitempty"` // none: an event that was dropped
}

// Text makes a text fit for an event: it is cut to MaxText bytes, and
// what is not UTF-8 in it is replaced.
func Text(text string) string { return valid.Cut(strings.ToValidUTF8(text, "\uFFFD"), MaxText) }

// Report is one event that a peer reports.
type Report struct {
	Topic  Topic             `cbor:"1,keyasint"`
	Action string            `cbor:"2,keyasint"`           // a word: a–z, 0–9, dash
	Millis int64             `cbor:"3,keyasint,omitempty"` // wall clock when it happened, Unix ms; 0: that of the entry
	Node   string            `cbor:"4,keyasint,omitempty"` // UUID, or none
	Text   string            `cbor:"5,keyasint"`           // a sentence of up to MaxText bytes
	Fields map[string]string `cbor:"6,keyasint,omitempty"` // up to MaxFields
}

// Validate says why a report cannot go into the log.
func (r Report) Validate() error {
	if !r.Topic.known() {
		return fmt.Errorf("%v is not known", r.Topic)
	}
	if len(r.Fields) > MaxFields {
		return fmt.Errorf("an event with %d fields, allowed are %d", len(r.Fields), MaxFields)
	}
	for name, value := range r.Fields { // order-free: any refusal is a refusal
		if err := errors.Join(validWord("field", name), validText(name, value, 0)); err != nil {
			return err
		}
	}
	if r.Node != "" {
		if err := valid.Node(r.Node); err != nil {
			return err
		}
	}
	return errors.Join(validWord("action", r.Action), validText("text", r.Text, 1), valid.Millis(r.Millis))
}

func validText(what, text string, least int) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s is not UTF-8", what)
	}
	return valid.Length(what, text, least, MaxText)
}

func validWord(what, word string) error {
	return valid.Word(what, word, 1, maxWord, func(b byte) bool {
		return 'a' <= b && b <= 'z' || '0' <= b && b <= '9' || b == '-' || b == '_'
	})
}
