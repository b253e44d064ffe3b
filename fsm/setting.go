package fsm

import (
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

var settingDomain = domain{
	Verbs: []entry.Verb[*txn]{
		entry.NewVerb(40, "put setting", applyPutSetting),
		entry.NewVerb(41, "delete setting", applyDeleteSetting),
	},
	Sections: []entry.Section[*txn]{
		entry.Many('k', "settings", func(d *txn) table.Of[Setting] { return d.settings },
			func(d *txn, s Setting) { d.settings.Put([]byte(s.Key), s) }),
	},
	Check: func(d *txn, p *valid.Problems) {
		for key, s := range d.settings.All() {
			p.Want(string(key) == s.Key && s.Index <= d.shared.Position.Index, "setting %s of index %d is filed under %q", s.Key, s.Index, key)
		}
	},
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
	if err := validSettingKey(c.Key); err != nil {
		return err
	}
	return valid.Length("value", c.Value, 0, maxSettingValue)
}

func validSettingKey(key string) error {
	if err := valid.Length("key", key, 1, maxSettingKey); err != nil {
		return err
	}
	return valid.Chars("key", key, func(b byte) bool {
		return 'a' <= b && b <= 'z' || '0' <= b && b <= '9' || b == '.' || b == '_' || b == '-'
	})
}

func applyPutSetting(t *txn, c PutSetting) Result {
	if !t.settings.Has([]byte(c.Key)) && t.settings.Size() >= MaxSettings {
		return entry.Refuse(Refused, "%d settings exist, which is the most; delete one", MaxSettings)
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

func applyDeleteSetting(t *txn, c DeleteSetting) Result {
	if !t.settings.Has([]byte(c.Key)) {
		return entry.Refuse(NotFound, "setting %s does not exist", c.Key)
	}
	t.settings.Drop([]byte(c.Key))
	return entry.Done()
}
