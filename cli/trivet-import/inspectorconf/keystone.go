package inspectorconf

import (
	"maps"
	"strings"

	"github.com/trivet-ha/trivet/config"
)

// authtoken is the section in which the original says how it asks Keystone.
const authtoken = "keystone_authtoken"

// found is what the file says under one of the original's names.
type found struct {
	text string
	from name
}

// named finds, for each key of ours, the first of the original's options that is
// written in a section.
func (c *converter) named(section string, options []renamed) map[string]found {
	out := make(map[string]found)
	for _, o := range options {
		n := c.first(section, o.theirs...)
		text, written := c.get(n)
		if !isSecret(n) {
			text = strings.TrimSpace(text)
		}
		if written && text != "" {
			out[o.ours] = found{text, n}
		}
	}
	return out
}

// renamed is a key of ours within its section, and what the original called it
// over the years, the newest name first.
type renamed struct {
	ours   string
	theirs []string
}

// clientTLS finds how the original speaks TLS to a service. What cannot be taken
// over is lost.
func (c *converter) clientTLS(section string) map[string]found {
	out := c.named(section, []renamed{{"ca_file", []string{"cafile"}}, {"cert_file", []string{"certfile"}},
		{"key_file", []string{"keyfile"}}})
	cert, hasCert := out["cert_file"]
	key, hasKey := out["key_file"]
	switch {
	case hasCert && !hasKey:
		out["key_file"] = cert // both in one file
	case hasKey && !hasCert:
		delete(out, "key_file")
		c.lose(key.from, loss{Changed, "there is no certificate for the key", "write cert_file too"})
	}
	insecure := name{section, "insecure"}
	if text, written := c.get(insecure); written {
		on, f := asBool(text)
		if f != nil {
			c.lose(insecure, loss{Changed, f.what, f.do})
		}
		if on == "true" {
			out["insecure_skip_verify"] = found{on, insecure}
		}
	}
	return out
}

// askKeystone carries over how the original asks Keystone about callers. It
// reports whether Trivet will; if not, why is lost.
func (c *converter) askKeystone() bool {
	if !c.writes(authtoken) {
		return false
	}
	values := c.named(authtoken, []renamed{
		{"auth_url", []string{"auth_url", "identity_uri"}},
		{"www_authenticate_uri", []string{"www_authenticate_uri", "auth_uri"}},
		{"username", []string{"username", "user_name", "admin_user"}}, {"password", []string{"password", "admin_password"}},
		{"project_name", []string{"project_name", "tenant_name", "admin_tenant_name"}},
		{"user_domain_name", []string{"user_domain_name", "default_domain_name"}},
		{"project_domain_name", []string{"project_domain_name", "default_domain_name"}},
	})
	maps.Copy(values, c.clientTLS(authtoken))
	cache := name{authtoken, "token_cache_time"}
	if text, written := c.get(cache); written {
		if seconds, f := asSeconds(text); f == nil && !strings.HasPrefix(seconds, "-") { // less than 0: none is kept
			values["cache_time"] = found{seconds, cache}
		} else {
			values["cache_time"] = found{"0s", cache}
		}
	}
	c.read[name{authtoken, "auth_type"}], c.read[name{authtoken, "auth_plugin"}] = true, true
	flags := map[string]string{"api.auth_strategy": config.StrategyKeystone}
	for ours, f := range values {
		flags["api.keystone."+ours] = f.text
	}
	_, err := config.Load(config.Sources{Flags: flags})
	problems, _ := err.(config.Problems)
	for _, p := range problems { // what keeps the values from being accepted is lost
		from := name{authtoken, "auth_url"}
		if f, written := values[strings.TrimPrefix(p.Key, "api.keystone.")]; written {
			from = f.from
		}
		c.lose(from, loss{Changed, "as " + p.Key + ": " + p.What, p.Do})
	}
	if err != nil {
		return false
	}
	for ours, f := range values {
		c.set("api.keystone."+ours, f.text, f.from)
	}
	return true
}

// writes reports whether the file says anything in a section.
func (s source) writes(section string) bool {
	for n := range s.file {
		if n.section == section {
			return true
		}
	}
	return false
}
