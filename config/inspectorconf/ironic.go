package inspectorconf

import "strings"

// ironicPassword is the one secret that is carried over.
var ironicPassword = name{"ironic", "password"}

// ironic carries over how the original logs in at Ironic. Some of the options
// have had older names; the first that is written counts.
func (c *converter) ironic() {
	way := c.login()
	if way != "" {
		c.set("ironic.auth_type", way, c.first("auth_type", "auth_plugin", "auth_strategy"))
	}
	for _, o := range []struct {
		to   string
		keys []string
	}{
		{"ironic.endpoint", []string{"endpoint_override", "ironic_url"}},
		{"ironic.username", []string{"username", "user_name"}},
		{"ironic.password", []string{"password"}},
		{"ironic.auth_url", []string{"auth_url"}},
		{"ironic.project_name", []string{"project_name", "tenant_name"}},
		{"ironic.user_domain_name", []string{"user_domain_name", "default_domain_name"}},
		{"ironic.project_domain_name", []string{"project_domain_name", "default_domain_name"}},
		{"ironic.region", []string{"region_name", "os_region"}},
		{"ironic.ca_file", []string{"cafile"}},
	} {
		n := c.first(o.keys...)
		text, written := c.get(n)
		if n != ironicPassword {
			text = strings.TrimSpace(text)
		}
		if written && text != "" {
			c.set(o.to, text, n)
		}
	}
	c.patience()
}

// first returns the option of the section that is written, among all its names,
// and counts the others as read; the newest if none is.
func (c *converter) first(keys ...string) name {
	var found name
	for _, key := range keys {
		n := name{"ironic", key}
		c.read[n] = true
		if found.key == "" && len(c.file[n]) > 0 {
			found = n
		}
	}
	if found.key == "" {
		return name{"ironic", keys[0]}
	}
	return found
}

// login returns what our option is to say, "" where there is nothing to say.
func (c *converter) login() string {
	n := c.first("auth_type", "auth_plugin", "auth_strategy")
	text, _ := c.get(n)
	user := c.first("username", "user_name")
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "none", "noauth":
		return "none"
	case "http_basic":
		return "http_basic"
	case "password", "v3password", "v2password", "keystone":
		return "keystone"
	case "":
		if len(c.file[user]) == 0 {
			c.lose(n, loss{"is not written, so that the original could not log in; none is assumed", "write ironic.auth_type where Ironic asks for a user"})
			return "none"
		}
		return "keystone"
	}
	c.lose(n, loss{quoted(text) + " is a way to log in that Trivet does not have", "write ironic.auth_type: http_basic or keystone, and a user"})
	return ""
}

// patience carries over how long a call may take, and that no certificate is
// presented or forgiven.
func (c *converter) patience() {
	timeout := name{"ironic", "timeout"}
	if _, written := c.get(timeout); written {
		c.carry(option{name: timeout, to: "ironic.timeout", turn: asSeconds})
	}
	insecure := name{"ironic", "insecure"}
	text, written := c.get(insecure)
	if on, f := asBool(text); written && (f != nil || on == "true") {
		c.lose(insecure, lostOptions()[insecure])
	}
}
