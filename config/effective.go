package config

// Setting is one option with the value in force.
type Setting struct {
	Key    string
	Value  string // as it would be written in a variable; secrets are hidden
	Origin Origin
}

// Effective lists every option with its value and where that came from, in the
// order of the table and without aliases: "trivet config show --effective".
func (c Config) Effective() []Setting {
	var settings []Setting
	for _, o := range table {
		if o.AliasOf == "" {
			settings = append(settings, Setting{Key: o.Key, Value: o.text(&c), Origin: c.Origin(o.Key)})
		}
	}
	return settings
}

// Line returns a key's value as a line of the file, below its section. Secrets
// are hidden.
func (c Config) Line(key string) string {
	o, known := Lookup(key)
	if !known {
		return ""
	}
	_, name := split(key)
	return name + ": " + o.yaml(o.text(&c))
}
