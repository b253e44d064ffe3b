package events

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/eventring"
)

// Event is one event as the API tells it.
type Event struct {
	ID     string            `json:"id"` // INCARNATION-INDEX-NUMBER
	Index  uint64            `json:"index"`
	Seq    uint32            `json:"seq"`
	Time   string            `json:"time"` // when it happened, RFC 3339 with fractions
	Kind   string            `json:"kind"`
	Action string            `json:"action"`
	Peer   string            `json:"peer"`
	Node   string            `json:"node"` // UUID, or ""
	Text   string            `json:"text"` // one sentence
	Fields map[string]string `json:"fields,omitempty"`
}

// Of returns an event of the log as the API tells it, with what to do about a finding among its fields.
func Of(e eventring.Event) Event {
	fields := e.Fields
	if remedy := boots.Remedy(fields["finding"]); remedy != "" && fields["found"] != "" { // which is not in the log
		fields = maps.Clone(fields)
		fields["remedy"] = remedy
	}
	return Event{
		ID: e.ID.String(), Index: e.ID.Index, Seq: e.ID.Seq, Time: time.UnixMilli(e.Millis).UTC().Format(time.RFC3339Nano),
		Kind: e.Topic.String(), Action: e.Action, Peer: e.Peer, Node: e.Node, Text: sentence(e), Fields: fields,
	}
}

// Rendered is an event in its two forms on the wire. It is shared by all readers and
// never changes.
type Rendered struct {
	ID    eventring.ID
	topic eventring.Topic
	node  string
	JSON  []byte
	Frame []byte // as a server-sent event, with the empty line that ends it
}

// render encodes an event once for all readers.
func render(stored eventring.Stored) *Rendered {
	e := stored.Decode()
	text, err := json.Marshal(Of(e))
	if err != nil { // strings and numbers always encode
		text = fmt.Appendf(nil, `{"id":%q,"text":"the event cannot be encoded"}`, e.ID.String())
	}
	r := &Rendered{ID: e.ID, topic: e.Topic, node: e.Node}
	r.Frame = fmt.Appendf(nil, "id: %v\nevent: %v\ndata: ", e.ID, e.Topic)
	begin := len(r.Frame)
	r.Frame = append(r.Frame, text...)
	r.JSON = r.Frame[begin:len(r.Frame):len(r.Frame)]
	r.Frame = append(r.Frame, "\n\n"...)
	return r
}

// Reset tells a reader that events between its position and First are gone: what it
// knows is not the whole history, and it begins again with First.
type Reset struct {
	First  string `json:"first"` // ID of the first event that there is
	Reason string `json:"reason"`
}

// Filter says which events a reader wants. The zero Filter wants all but those that
// only administrators see.
type Filter struct {
	Topics []eventring.Topic // none: all
	Node   string            // UUID; "": all
	Admin  bool              // the reader may see everything
}

// WantsTopic reports whether the reader wants events about a topic.
func (f Filter) WantsTopic(t eventring.Topic) bool {
	// Only administrators see the audit of calls, and rules, as in the API itself.
	if !f.Admin && (t == eventring.TopicAudit || t == eventring.TopicRule) {
		return false
	}
	return len(f.Topics) == 0 || slices.Contains(f.Topics, t)
}

// wants reports whether a rendered event passes.
func (f Filter) wants(r *Rendered) bool {
	return f.WantsTopic(r.topic) && (f.Node == "" || f.Node == r.node)
}

// maybe reports whether an event may pass, without decoding it.
func (f Filter) maybe(e eventring.Stored) bool {
	return f.WantsTopic(e.Topic()) && (f.Node == "" || e.Mentions(f.Node))
}
