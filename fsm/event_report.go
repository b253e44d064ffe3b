package fsm

import (
	"errors"
	"unicode/utf8"
)

// MaxEventReports is how many events one entry may report.
const MaxEventReports = 64

// ReportEvents records events that no command causes: what a peer sees on its host
// and what its API was asked. It needs a session; the events are of its peer. The
// proposer bounds how many there are: see package events.
type ReportEvents struct {
	Reports []EventReport `cbor:"1,keyasint"` // 1 to MaxEventReports
}

// EventReport is one event that a peer reports.
type EventReport struct {
	Topic  Topic             `cbor:"1,keyasint"`
	Action string            `cbor:"2,keyasint"`           // a word: a–z, 0–9, dash
	Millis int64             `cbor:"3,keyasint,omitempty"` // wall clock when it happened, Unix ms; 0: that of the entry
	Node   string            `cbor:"4,keyasint,omitempty"` // UUID, or none
	Text   string            `cbor:"5,keyasint"`           // a sentence of up to MaxEventText bytes
	Fields map[string]string `cbor:"6,keyasint,omitempty"` // up to MaxEventFields
}

// Validate implements Command.
func (c ReportEvents) Validate() error {
	if n := len(c.Reports); n < 1 || n > MaxEventReports {
		return invalid("%d events are reported, allowed are 1 to %d", n, MaxEventReports)
	}
	for _, r := range c.Reports {
		if err := r.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// Validate says why a report cannot go into the log.
func (r EventReport) Validate() error {
	if !r.Topic.known() {
		return invalid("%v is not known", r.Topic)
	}
	if len(r.Fields) > MaxEventFields {
		return invalid("an event with %d fields, allowed are %d", len(r.Fields), MaxEventFields)
	}
	for name, value := range r.Fields { // order-free: any refusal is a refusal
		if err := errors.Join(validEventWord("field", name), validEventText(name, value, 0)); err != nil {
			return err
		}
	}
	if r.Node != "" {
		if err := validNode(r.Node); err != nil {
			return err
		}
	}
	return errors.Join(validEventWord("action", r.Action), validEventText("text", r.Text, 1), validMillis(r.Millis))
}

func validEventText(what, text string, least int) error {
	if !utf8.ValidString(text) {
		return invalid("%s is not UTF-8", what)
	}
	return within(what, text, least, MaxEventText)
}

func validEventWord(what, word string) error {
	if err := within(what, word, 1, maxEventWord); err != nil {
		return err
	}
	return only(what, word, func(b byte) bool {
		return 'a' <= b && b <= 'z' || '0' <= b && b <= '9' || b == '-' || b == '_'
	})
}

func applyReportEvents(t *txn, c ReportEvents) Result {
	s, ok := t.peers.sessions.get(tokenKey(t.header.Session))
	if !ok {
		return refuse(SessionEnded, "a report needs a live session, %v is none", t.header.Session)
	}
	for _, r := range c.Reports {
		t.record(ClusterEvent{
			Topic: r.Topic, Action: r.Action, Millis: r.Millis, Peer: t.nameOf(s.Peer), Node: r.Node, Text: r.Text, Fields: r.Fields,
		})
	}
	return done()
}
