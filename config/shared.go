package config

import "strings"

// Shared returns what stands in this peer's file and should be the same on every
// peer: key → value as in a variable, secrets in the clear. What came from the
// environment or a flag is an exception of this host and stays here.
func (c Config) Shared() map[string]string {
	shared := make(map[string]string)
	for _, o := range table {
		if o.AliasOf != "" || o.Extent == OneHost || c.Origin(o.Key).Kind != FromFile {
			continue
		}
		shared[o.Key] = o.plainText(&c)
	}
	return shared
}

// plainText is text without hiding anything.
func (o Option) plainText(c *Config) string {
	if secret, ok := o.field(c).(*Secret); ok {
		return secret.Reveal()
	}
	return o.text(c)
}

// Adopt returns those of another peer's shared values that are not set here, and the
// keys that this version does not know.
func (c Config) Adopt(shared map[string]string) (values map[string]string, unknown []string) {
	values = make(map[string]string)
	for key, value := range shared {
		o, known := Lookup(key)
		switch {
		case !known:
			unknown = append(unknown, strings.ToValidUTF8(key, "?"))
		case o.AliasOf == "" && o.Extent != OneHost && c.Origin(key).Kind == FromDefault:
			values[key] = value
		}
	}
	return values, unknown
}

// Completed returns this configuration with values of another peer that are not set here,
// as they will be once they are written into the file. from names that peer's settings in
// problems. What is wrong with a value alone, or with values together, is in the error, a
// [Problems].
func (c Config) Completed(values map[string]string, from string) (Config, error) {
	c = c.deepCopy()
	var problems Problems
	at := Origin{Kind: FromFile, Name: from}
	for _, o := range table {
		text, given := values[o.Key]
		if !given {
			continue
		}
		value, f := o.parse(text)
		if f != nil {
			problems = append(problems, f.at(at, o.Key))
			continue
		}
		o.set(&c, value)
		c.origins[o.Key] = at
	}
	c.setDependentDefaults()
	return c, append(problems, c.crossCheck()...).err()
}
