package eventring

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/fsm/valid"
)

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
