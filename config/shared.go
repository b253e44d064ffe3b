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
