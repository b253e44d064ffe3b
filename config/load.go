package config

import (
	"fmt"
	"maps"
	"slices"
)

// MaxFile bounds the configuration file, in bytes.
const MaxFile = 1 << 20

// Sources are what a configuration is loaded from. The caller read them.
type Sources struct {
	File     string            // name of the file, for messages; "" when there is none
	Text     []byte            // its content
	Env      []string          // as os.Environ gives it; variables that do not begin with TRIVET_ are passed over
	Flags    map[string]string // key of the option → value, only of flags that were given
	HostName string            // of this host: the default of name
}

// setting is one value as one source gives it.
type setting struct {
	Key    string // as written, an alias perhaps
	Value  any
	Origin Origin
}

// Load builds the configuration. The error, if any, is a [Problems] with
// everything that is wrong; the Config then holds what could be understood, with
// defaults in the place of the rest, and must not be run.
func Load(s Sources) (Config, error) {
	var problems Problems
	settings := slices.Concat( // weakest first
		fileSettings(s.File, s.Text, &problems),
		envSettings(s.Env, &problems),
		flagSettings(s.Flags, &problems),
	)
	// An option that was set under both of its names, in one source or in several: which one counts would be a guess.
	written := make(map[string]setting)
	for _, one := range settings {
		written[one.Key] = one
	}
	for _, key := range slices.Sorted(maps.Keys(written)) {
		if other, both := written[canonical(key)]; both && other.Key != key {
			problems = append(problems, Problem{Where: written[key].Origin, Key: key,
				What: fmt.Sprintf("is another name of %s, which is set too (%v)", other.Key, other.Origin),
				Do:   "remove one of the two"})
		}
	}
	c := assemble(settings, s.HostName)
	problems = append(problems, c.crossCheck()...)
	c.warnings = c.secondLook()
	return c, problems.err()
}

// assemble lays settings over the defaults, and a later one over those before it.
func assemble(settings []setting, host string) Config {
	merged := make(map[string]setting)
	for _, s := range settings {
		merged[canonical(s.Key)] = s
	}
	c := Default()
	if hostName().checkValue(host) == nil { // else CheckServe asks for a name
		c.Name = host
	}
	c.origins = make(map[string]Origin)
	for _, o := range table {
		if s, ok := merged[o.Key]; ok {
			o.set(&c, s.Value)
			c.origins[o.Key] = s.Origin
		}
	}
	c.placeLogin()
	c.setDependentDefaults()
	return c
}

// placeLogin notes where user and password of Ironic were written.
func (c *Config) placeLogin() {
	c.Ironic.origins = loginOrigins{c.Origin("ironic.username"), c.Origin("ironic.password")}
	if c.Ironic.PasswordFile != "" {
		c.Ironic.origins.password = c.Origin("ironic.password_file")
	}
}
