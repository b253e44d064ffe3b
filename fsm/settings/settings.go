// Package settings holds what operators note in the log under keys of their own.
//
// The commands: [PutSetting] and [DeleteSetting].
package settings

import (
	"cmp"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Domain is all that the log, snapshots and Check know of settings.
var Domain = entry.Domain[Txn]{
	Verbs: []entry.Verb[Txn]{
		entry.NewVerb[Txn, PutSetting](40, "put setting"),
		entry.NewVerb[Txn, DeleteSetting](41, "delete setting"),
	},
	Sections: []entry.Section[Txn]{
		entry.Many('k', "settings", func(t Txn) table.Of[Setting] { return t.settings },
			func(t Txn, s Setting) { t.settings.Put([]byte(s.Key), s) }),
	},
	Checks: entry.Checks[Txn]{func(t Txn, p *valid.Problems) {
		for key, s := range t.settings.All() {
			p.Want(string(key) == s.Key && s.Index <= t.Position.Index, "setting %s of index %d is filed under %q", s.Key,
				s.Index, key)
		}
	}},
}

// Tables are the settings by their keys.
type Tables struct{ settings table.Of[Setting] }

// Txn is one entry at work on the settings.
type Txn struct {
	*entry.Txn
	*Tables
}

// Bounds of settings.
const (
	// MaxSettings is the greatest number of settings.
	MaxSettings = 1000

	maxSettingKey   = 64
	maxSettingValue = 4096
)

// Setting is one replicated key with its value. What settings mean is for
// those who read them.
type Setting struct {
	Key   string `cbor:"1,keyasint"`
	Value string `cbor:"2,keyasint,omitempty"`
	Index uint64 `cbor:"3,keyasint"` // of the entry that wrote it
}

// PutSetting writes a setting. Its Value is the Setting as written.
type PutSetting struct {
	Key   string `cbor:"1,keyasint"` // 1 to 64 of a–z, 0–9, dot, dash, underscore
	Value string `cbor:"2,keyasint,omitempty"`
}

// Validate implements Command.
func (c PutSetting) Validate() error {
	return cmp.Or(validSettingKey(c.Key), valid.Length("value", c.Value, 0, maxSettingValue))
}

func validSettingKey(key string) error {
	return valid.Word("key", key, 1, maxSettingKey, func(b byte) bool {
		return 'a' <= b && b <= 'z' || '0' <= b && b <= '9' || b == '.' || b == '_' || b == '-'
	})
}

// Apply implements entry.Change.
func (c PutSetting) Apply(t Txn) entry.Result {
	if !t.settings.Has([]byte(c.Key)) && t.settings.Size() >= MaxSettings {
		return entry.Refuse(entry.Refused, "%d settings exist, which is the most; delete one", MaxSettings)
	}
	s := Setting{Key: c.Key, Value: c.Value, Index: t.Position.Index}
	t.settings.Put([]byte(c.Key), s)
	return entry.Answer(s)
}

// DeleteSetting removes a setting.
type DeleteSetting struct {
	Key string `cbor:"1,keyasint"`
}

// Validate implements Command.
func (c DeleteSetting) Validate() error { return validSettingKey(c.Key) }

// Apply implements entry.Change.
func (c DeleteSetting) Apply(t Txn) entry.Result {
	if !t.settings.Has([]byte(c.Key)) {
		return entry.Refuse(entry.NotFound, "setting %s does not exist", c.Key)
	}
	t.settings.Drop([]byte(c.Key))
	return entry.Done()
}

// CapIndices keeps the indices of settings within the log of a new history.
func (t Txn) CapIndices() {
	for key, s := range t.settings.All() {
		s.Index = min(s.Index, t.Position.Index)
		t.settings.Put(key, s)
	}
}

// Setting returns a setting.
func (s *Tables) Setting(key string) (Setting, bool) { return s.settings.Get([]byte(key)) }

// Settings returns all settings in the order of their keys.
func (s *Tables) Settings() []Setting { return table.List(s.settings.All()) }
