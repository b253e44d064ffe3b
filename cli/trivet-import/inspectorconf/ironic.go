package inspectorconf

import "strings"

// isSecret names the secrets that are carried over.
func isSecret(n name) bool {
	switch n {
	case name{"ironic", "password"}, name{authtoken, "password"}, name{authtoken, "admin_password"}:
		return true
	}
	return false
}

// ironic carries over how the original logs in at Ironic. Some of the options
// have had older names; the first that is written counts.
func (c *converter) ironic() {
	way := c.login()
	if way != "" {
		c.set("ironic.auth_type", way, c.first("ironic", "auth_type", "auth_plugin", "auth_strategy"))
	}
	for ours, f := range c.named("ironic", []renamed{
		{"endpoint", []string{"endpoint_override", "ironic_url"}}, {"username", []string{"username", "user_name"}},
		{"password", []string{"password"}},
		{"auth_url", []string{"auth_url"}}, {"project_name", []string{"project_name", "tenant_name"}},
		{"user_domain_name", []string{"user_domain_name", "default_domain_name"}},
		{"project_domain_name", []string{"project_domain_name", "default_domain_name"}},
		{"region", []string{"region_name", "os_region"}},
	}) {
		c.set("ironic."+ours, f.text, f.from)
	}
	for ours, f := range c.clientTLS("ironic") {
		c.set("ironic."+ours, f.text, f.from)
	}
	timeout := name{"ironic", "timeout"} // of a call
	if _, written := c.get(timeout); written {
		c.carry(option{name: timeout, to: "ironic.timeout", turn: asSeconds})
	}
}

// first returns the option of a section that is written, among all its names,
// and counts the others as read; the newest if none is.
func (c *converter) first(section string, keys ...string) name {
	var found name
	for _, key := range keys {
		n := name{section, key}
		c.read[n] = true
		if found.key == "" && len(c.file[n]) > 0 {
			found = n
		}
	}
	if found.key == "" {
		return name{section, keys[0]}
	}
	return found
}

// login returns what our option is to say, "" where there is nothing to say.
func (c *converter) login() string {
	n := c.first("ironic", "auth_type", "auth_plugin", "auth_strategy")
	text, _ := c.get(n)
	user := c.first("ironic", "username", "user_name")
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "none", "noauth":
		return "none"
	case "http_basic":
		return "http_basic"
	case "password", "v3password", "v2password", "keystone":
		return "keystone"
	case "":
		if len(c.file[user]) == 0 {
			c.lose(n, loss{Changed, "is not written, so that the original could not log in; none is assumed",
				"write ironic.auth_type where Ironic asks for a user"})
			return "none"
		}
		return "keystone"
	}
	c.lose(n, loss{Changed, quoted(text) + " is a way to log in that Trivet does not have",
		"write ironic.auth_type: http_basic or keystone, and a user"})
	return ""
}
