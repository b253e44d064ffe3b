package config

import (
	"strings"
	"time"
)

// APIKeystone is what api.auth_strategy keystone needs: where to ask, as whom,
// and who may do what.
type APIKeystone struct {
	AuthURL         string        `key:"auth_url"`
	Username        string        `key:"username"`
	Password        Secret        `key:"password"`
	PasswordFile    string        `key:"password_file"` // "" unless the password stands in a file of its own
	UserDomain      string        `key:"user_domain_name"`
	Project         string        `key:"project_name"`
	ProjectDomain   string        `key:"project_domain_name"`
	AdminRoles      []string      `key:"admin_roles"`
	ReaderRoles     []string      `key:"reader_roles"`
	CacheTime       time.Duration `key:"cache_time"`
	Timeout         time.Duration `key:"timeout"`
	AuthenticateURI string        `key:"www_authenticate_uri"` // "" for AuthURL
	TLS             ClientTLS
}

// SystemScope stands before the name of a role that counts in a token for the
// whole of the system alone.
const SystemScope = "system:"

var apiKeystoneOptions = []Option{
	{Key: "api.keystone.auth_url", Change: AtReload, Extent: AllHosts, rule: orEmpty(webURL()),
		Help: "URL of Keystone, with or without /v3."},
	{Key: "api.keystone.username", Change: AtReload, Extent: AllHosts, rule: anyText(),
		Help: "User that examines the tokens of others. It needs the role service or admin."},
	{Key: "api.keystone.password", Change: AtReload, Extent: AllHosts, rule: anyText(),
		Help: "Password of that user. Quote it, or write password_file instead. As a flag every user of the host sees it in ps."},
	{Key: "api.keystone.password_file", Change: AtReload, Extent: MostHosts, rule: orEmpty(absolutePath(maxText)),
		Help: "File that holds the password and nothing else. It is read at every login, so that a new password needs no restart."},
	{Key: "api.keystone.user_domain_name", Change: AtReload, Extent: AllHosts, Default: "Default", rule: anyText(),
		Help: "Keystone domain of that user."},
	{Key: "api.keystone.project_name", Change: AtReload, Extent: AllHosts, Default: "service", rule: anyText(),
		Help: "Project in which the user has its role."},
	{Key: "api.keystone.project_domain_name", Change: AtReload, Extent: AllHosts, Default: "Default", rule: anyText(),
		Help: "Keystone domain of that project."},
	{Key: "api.keystone.admin_roles", Change: AtReload, Extent: AllHosts, Default: "admin,administrator,baremetal_admin",
		rule: pairs("names of roles", isRole),
		Help: "Who has one of these roles may do everything. system:NAME counts only in a token for the whole of the system; NAME alone in one for any project too."},
	{Key: "api.keystone.reader_roles", Change: AtReload, Extent: AllHosts, Default: "baremetal_observer,system:reader",
		rule: pairs("names of roles", isRole),
		Help: "Who has one of these roles may see how introspections stand, and nothing else."},
	{Key: "api.keystone.cache_time", Change: AtReload, Extent: AllHosts, Default: "5m", rule: between(0, time.Hour),
		Help: "How long what Keystone said of a token counts, also while Keystone is away; never longer than the token is good. One that was revoked may be taken that long. 0s: ask each time."},
	{Key: "api.keystone.timeout", Change: AtReload, Extent: MostHosts, Default: "5s",
		rule: between(100*time.Millisecond, 30*time.Second),
		Help: "How long Keystone may take to say who holds a token; then 503."},
	{Key: "api.keystone.www_authenticate_uri", Change: AtReload, Extent: AllHosts, rule: orEmpty(webURL()),
		Help: "URL of Keystone that clients without a token are told, if theirs is another than auth_url."},
}

// clientTLSOptions are those of TLS to a service of others.
func clientTLSOptions(section, whose string) []Option {
	return []Option{
		{Key: section + "ca_file", Change: AtReload, Extent: MostHosts, rule: orEmpty(absolutePath(maxText)),
			Help: "Certificates (PEM) that may sign " + whose + " besides those of the system. Read again when it changes."},
		{Key: section + "cert_file", Change: AtReload, Extent: MostHosts, rule: orEmpty(absolutePath(maxText)),
			Help: "Certificate (PEM) that is shown there, where one is asked for. Read again when it changes."},
		{Key: section + "key_file", Change: AtReload, Extent: MostHosts, rule: orEmpty(absolutePath(maxText)),
			Help: "Its private key (PEM)."},
		{Key: section + "insecure_skip_verify", Change: AtReload, Extent: AllHosts, Default: "false",
			Help: "Whether certificates are not checked: then an attacker in between reads the password. For trials alone."},
	}
}

// isRole accepts a role's name, after the mark of its scope perhaps.
func isRole(item string) bool {
	name := strings.TrimPrefix(item, SystemScope)
	return name != "" && len(name) <= 255
}

// clientTLS yields the sections in which TLS to a service is configured, in the
// order of the table.
func (c Config) clientTLS() func(yield func(section string, conf ClientTLS) bool) {
	return func(yield func(string, ClientTLS) bool) {
		_ = yield("api.keystone.", c.API.Keystone.TLS) && yield("ironic.", c.Ironic.TLS)
	}
}

// lookAtServices warns of what goes unused, unchecked, or in the clear.
func (r *review) lookAtServices() {
	k, asked := r.API.Keystone, r.API.AuthStrategy == StrategyKeystone
	switch {
	case !asked && k.AuthURL != "":
		r.addProblem("api.keystone.auth_url", "is not used: api.auth_strategy is "+r.API.AuthStrategy,
			"write api.auth_strategy: keystone, or remove the section")
	case asked && inTheClear(k.AuthURL):
		r.addProblem("api.keystone.auth_url", "the password and all callers' tokens go over the network unencrypted",
			"use https")
	}
	for section, conf := range r.clientTLS() {
		r.when(conf.InsecureSkipVerify, section+"insecure_skip_verify",
			"NO CERTIFICATE IS CHECKED: a host on the path reads the password and can answer in the service's place",
			"write "+section+"ca_file instead")
	}
}
