package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Renewal is what becomes of a running peer's configuration when its sources
// were read again.
type Renewal struct {
	Config  Config   // to run by from now on
	Applied []string // keys whose new value counts in it, in the order of the table
	Restart []string // keys whose new value counts from the next start
	// Together is why nothing is applied although something could be: next to what
	// has to wait for a restart it would not do. Empty mostly.
	Together Problems
}

// Renew lays next, which was loaded without an error, over c, by which a peer
// runs. Options that a running peer cannot change keep their value. Is the
// mixture of both something that neither is — refused, or worth a warning that
// neither deserves — then all of it waits for the restart: a door must not open
// because only one of two lines has come into force. Keys whose files were
// rewritten are changed whether the path is another or not.
func (c Config) Renew(next Config, rewritten ...string) Renewal {
	r := Renewal{Config: c.deepCopy()}
	for _, o := range table {
		if o.AliasOf != "" {
			continue
		}
		same := o.exact(&c) == o.exact(&next)
		switch {
		case same && !slices.Contains(rewritten, o.Key):
		case o.Change == AtJoin:
			o.set(&r.Config, o.value(&next)) // see CheckName
		case r.waits(o):
			r.Restart = append(r.Restart, o.Key)
			if !same {
				continue
			}
		default:
			r.Applied = append(r.Applied, o.Key)
			o.set(&r.Config, o.value(&next))
		}
		if at, written := next.origins[o.Key]; written {
			r.Config.origins[o.Key] = at
		} else {
			delete(r.Config.origins, o.Key)
		}
	}
	r.Config.placeLogin()
	r.Config.warnings = r.Config.secondLook()
	if len(r.Restart) == 0 {
		return r
	}
	known := make(map[string]bool) // what is wrong with either, or worth a warning
	for _, p := range append(c.judgeTogether(), next.judgeTogether()...) {
		known[p.Key+p.What] = true
	}
	r.Together = slices.DeleteFunc(r.Config.judgeTogether(), func(p Problem) bool { return known[p.Key+p.What] })
	if len(r.Together) > 0 {
		r.Config, r.Restart, r.Applied = c, append(r.Restart, r.Applied...), nil
	}
	return r
}

// waits reports whether a change of an option counts from the next start alone.
func (r Renewal) waits(o Option) bool {
	return o.Change == AtRestart ||
		slices.ContainsFunc(o.With, func(key string) bool { return slices.Contains(r.Restart, key) })
}

// judgeTogether is all that is wrong with values together, or worth a warning.
func (c Config) judgeTogether() Problems {
	return slices.Concat(c.crossCheck(), c.CheckPairs(), c.secondLook())
}

// deepCopy returns a copy that shares no mutable part with c.
func (c Config) deepCopy() Config {
	c.origins = maps.Clone(c.origins)
	if c.origins == nil {
		c.origins = make(map[string]Origin)
	}
	return c
}

// value returns the value as set takes it.
func (o Option) value(c *Config) any { return reflect.ValueOf(o.field(c)).Elem().Interface() }

// exact is the value as text that no other value has: items of a list may hold
// commas, and no NUL.
func (o Option) exact(c *Config) string {
	if list, ok := o.field(c).(*[]string); ok {
		return strings.Join(*list, "\x00")
	}
	return o.plainText(c)
}
