package fsm

var settingDomain = domain{
	verbs: []row{
		verb(40, "put setting", applyPutSetting),
		verb(41, "delete setting", applyDeleteSetting),
	},
	sections: []section{
		many('k', "settings", func(d *data) table[Setting] { return d.settings },
			func(d *data, s Setting) { d.settings.put([]byte(s.Key), s) }),
	},
	check: checkSettings,
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
	return within("value", c.Value, 0, maxSettingValue)
}

func validSettingKey(key string) error {
	if err := within("key", key, 1, maxSettingKey); err != nil {
		return err
	}
	return only("key", key, func(b byte) bool {
		return 'a' <= b && b <= 'z' || '0' <= b && b <= '9' || b == '.' || b == '_' || b == '-'
	})
}

func applyPutSetting(t *txn, c PutSetting) Result {
	if !t.settings.has([]byte(c.Key)) && t.settings.size() >= MaxSettings {
		return refuse(Refused, "%d settings exist, which is the most; delete one", MaxSettings)
	}
	s := Setting{Key: c.Key, Value: c.Value, Index: t.position.Index}
	t.settings.put([]byte(c.Key), s)
	return answer(s)
}

// DeleteSetting removes a setting.
type DeleteSetting struct {
	Key string `cbor:"1,keyasint"`
}

// Validate implements Command.
func (c DeleteSetting) Validate() error { return validSettingKey(c.Key) }

func applyDeleteSetting(t *txn, c DeleteSetting) Result {
	if !t.settings.has([]byte(c.Key)) {
		return refuse(NotFound, "setting %s does not exist", c.Key)
	}
	t.settings.drop([]byte(c.Key))
	return done()
}

func checkSettings(d *data, p *problems) {
	for key, s := range d.settings.all() {
		p.want(string(key) == s.Key && s.Index <= d.position.Index, "setting %s of index %d is filed under %q", s.Key, s.Index, key)
	}
}
