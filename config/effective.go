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

// Secrets lists the values that must not be shown, in the clear, for code that
// removes them from texts that others may read.
func (c Config) Secrets() []string {
	var values []string
	for _, o := range table {
		if secret, ok := o.field(&c).(*Secret); ok && *secret != "" {
			values = append(values, secret.Reveal())
		}
	}
	return values
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
