package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// API is the section of the REST API.
type API struct {
	Listen string `key:"listen"`
	// RamdiskListen is "" or off where ramdisks call Listen alone; see setDependentDefaults.
	RamdiskListen string `key:"ramdisk_listen"`
	// AuthStrategy is "" when none was written and api.listen is not loopback: see CheckServe.
	AuthStrategy          string      `key:"auth_strategy"`
	HTTPBasicAuthUserFile string      `key:"http_basic_auth_user_file"`
	HTTPBasicReaders      []string    `key:"http_basic_readers"` // names in that file
	Healthcheck           bool        `key:"healthcheck"`
	UI                    bool        `key:"ui"`
	CallbackRate          int         `key:"callback_rate"` // a second and source; 0: no limit
	CallbackBurst         int         `key:"callback_burst"`
	TrustedProxies        []string    `key:"trusted_proxies"` // networks
	TLS                   TLS         `key:"tls"`
	Keystone              APIKeystone `key:"keystone"`
}

// ListenOff is the value of api.ramdisk_listen by which ramdisks call api.listen alone.
const ListenOff = "off"

// ramdiskPort is the port of api.ramdisk_listen where none is written.
const ramdiskPort = 5055

// StrategyKeystone is the value of api.auth_strategy that asks Keystone.
const StrategyKeystone = "keystone"

// The values of api.tls.certificate.
const (
	TLSOff     = "off"
	TLSFiles   = "files"
	TLSCluster = "cluster"
)

// TLS is how the API shows who it is.
type TLS struct {
	Certificate string   `key:"certificate"`
	CertFile    string   `key:"cert_file"`
	KeyFile     string   `key:"key_file"`
	Names       []string `key:"names"` // besides those that a peer knows of itself
}

// Scheme is that of the API's URLs.
func (a API) Scheme() string {
	if a.TLS.Certificate == TLSFiles || a.TLS.Certificate == TLSCluster {
		return "https"
	}
	return "http"
}

// Ramdisks is where ramdisks call: api.ramdisk_listen, or api.listen where there is none.
func (a API) Ramdisks() (key, listen string) {
	if a.RamdiskListen == "" || a.RamdiskListen == ListenOff {
		return "api.listen", a.Listen
	}
	return "api.ramdisk_listen", a.RamdiskListen
}

// Local is where clients on this host reach the API: host and port, "" where the port is any that is free.
func (a API) Local() string {
	l, ok := listenerOf("api.listen", a.Listen)
	if !ok || l.port == 0 {
		return ""
	}
	at := "127.0.0.1"
	if host, _, err := net.SplitHostPort(a.Listen); err == nil && l.host.IsValid() {
		at = host
	}
	return net.JoinHostPort(at, strconv.FormatUint(l.port, 10))
}

var apiOptions = []Option{
	{Key: "api.listen", Change: AtRestart, Extent: OneHost, Default: ":5050", rule: listenAddress(),
		Help: "Address and port of the REST API. Without an address it answers at each of this host's, and so at the floating IP, where ramdisks and other clients call it. Commands on this host ask it there."},
	{Key: "api.ramdisk_listen", Change: AtRestart, Extent: OneHost, rule: offOr(listenAddress()),
		Help: "Address and port that ramdisks alone call: 'trivet dnsmasq-config' names it in the boot script. While this peer cannot commit their documents it refuses connections there, so that a ramdisk with a list of URLs goes to the next host. Ramdisks are answered at api.listen as well, always. off: there alone. There is no default where api.listen is a loopback address; else it is port 5055 at the address of api.listen, unless another option has that port."},
	{Key: "api.auth_strategy", Change: AtReload, Extent: AllHosts,
		rule: oneOf("", "noauth", "http_basic", StrategyKeystone),
		Help: "Who may use the API: noauth (everybody who reaches it), http_basic, or keystone, by a token in X-Auth-Token. There is no default unless api.listen is a loopback address, where it is noauth."},
	{Key: "api.http_basic_auth_user_file", Change: AtReload, Extent: OneHost, rule: orEmpty(absolutePath(maxText)),
		Help: "The users of http_basic, as htpasswd -B writes them."},
	{Key: "api.http_basic_readers", Change: AtReload, Extent: AllHosts, rule: userNames(),
		Help: "Those of the users who may see how introspections stand, and nothing else. All others may do everything."},
	{Key: "api.healthcheck", Change: AtReload, Extent: AllHosts, Default: "true",
		Help: "Whether /healthcheck is answered, the original's name for what /readyz says in more words."},
	{Key: "api.ui", Change: AtReload, Extent: AllHosts, Default: "true",
		Help: "Whether the page at /ui/ is served. Its users log in with the credentials of the API and may do there what they may do through the API; administrators who log in may also transfer leadership, set maintenance, pause failover and run a drill."},
	{Key: "api.callback_rate", Change: AtReload, Extent: MostHosts, Default: "10", rule: number(0, 100_000),
		Help: "How many callbacks a second one source (an IPv4 address or an IPv6 /64) may send for long; those of this host, and of machines under introspection, are not counted. Further ones wait for up to 20 s, then get 503 with Retry-After. 0: no limit."},
	{Key: "api.callback_burst", Change: AtReload, Extent: MostHosts, Default: "1000", rule: number(1, 100_000),
		Help: "How many callbacks of machines that are not under introspection one source may send at once: all behind one NAT that are discovered together."},
	{Key: "api.trusted_proxies", Change: AtReload, Extent: MostHosts,
		rule: pairs("networks, as 192.0.2.0/24", parsed(netip.ParsePrefix)),
		Help: "Where proxies stand whose X-Forwarded headers count: -For says who sent a request, by its last entry, the others where links lead. Without any, a request comes from the address that connected."},

	{Key: "api.tls.certificate", Change: AtRestart, Extent: AllHosts, Default: TLSOff,
		rule: oneOf(TLSOff, TLSFiles, TLSCluster),
		Help: "off, files (a certificate of your own), or cluster: each peer has one issued by the cluster's CA, which clients must trust; 'trivet cert ca' prints it."},
	{Key: "api.tls.cert_file", Change: AtRestart, Extent: MostHosts, rule: orEmpty(absolutePath(maxText)),
		Help: "For files: the certificate (PEM), and after it those that lead to its CA. It is read again when it changes."},
	{Key: "api.tls.key_file", Change: AtRestart, Extent: MostHosts, rule: orEmpty(absolutePath(maxText)),
		Help: "For files: its private key (PEM)."},
	{Key: "api.tls.names", Change: AtRestart, Extent: MostHosts, rule: pairs("host names or addresses", isServerName),
		Help: "For cluster: further names and addresses by which clients call the API. Those of this host and the floating IP are in every certificate."},
}

// isServerName accepts what a certificate can be for.
func isServerName(item string) bool {
	return parsed(netip.ParseAddr)(item) || isName(item, alphanumeric+"._-*", "", 253)
}

// maxTLSNames keeps a certificate within what the cluster's CA signs, with the
// names that a peer adds itself.
const maxTLSNames = 16

// checkAPI finds options of the API that do not fit together, and what is missing to ask Keystone.
func (r *review) checkAPI() {
	r.when(r.API.AuthStrategy == "http_basic" && r.API.HTTPBasicAuthUserFile == "", "api.auth_strategy",
		"http_basic needs users", "write api.http_basic_auth_user_file")
	files := r.API.TLS.CertFile != "" && r.API.TLS.KeyFile != ""
	r.when(r.API.TLS.Certificate == TLSFiles && !files, "api.tls.certificate", "files needs them",
		"write api.tls.cert_file and api.tls.key_file")
	if n := len(r.API.TLS.Names); n > maxTLSNames {
		r.addProblem("api.tls.names", fmt.Sprintf("has %d items", n), fmt.Sprintf("at most %d", maxTLSNames))
	}
	k := r.API.Keystone
	r.when(k.Password != "" && k.PasswordFile != "", "api.keystone.password_file", "there is api.keystone.password too",
		"remove one of the two")
	if r.API.AuthStrategy != StrategyKeystone {
		return
	}
	for _, need := range []struct{ key, value string }{
		{"api.keystone.auth_url", k.AuthURL}, {"api.keystone.username", k.Username},
		{"api.keystone.user_domain_name", k.UserDomain},
		{"api.keystone.project_name", k.Project}, {"api.keystone.project_domain_name", k.ProjectDomain},
	} {
		r.when(need.value == "", need.key, "api.auth_strategy keystone needs it",
			"write it: Trivet asks Keystone as a user of its own, as every service does")
	}
	r.when(k.Password == "" && k.PasswordFile == "", "api.keystone.password", "api.auth_strategy keystone needs it",
		"write it, or api.keystone.password_file")
	r.when(len(k.AdminRoles) == 0, "api.keystone.admin_roles", "without a role no user could change anything",
		"write a role, as admin or system:admin")
}

// lookAtAPI warns of what is written and not used.
func (r *review) lookAtAPI() {
	r.when(r.API.AuthStrategy == "noauth" && !loopback(r.API.Listen), "api.auth_strategy",
		"everybody who reaches "+r.API.Listen+" may start and abort introspections",
		"use http_basic or keystone unless the network is closed")
	r.when(r.API.AuthStrategy != "http_basic" && len(r.API.HTTPBasicReaders) > 0, "api.http_basic_readers",
		"there are no users without http_basic: who is written here may do everything",
		"write api.auth_strategy: http_basic, or remove the list")
	for _, written := range []struct {
		key, file string
	}{{"api.tls.cert_file", r.API.TLS.CertFile}, {"api.tls.key_file", r.API.TLS.KeyFile}} {
		r.when(written.file != "" && r.API.TLS.Certificate != TLSFiles, written.key,
			"is not used: api.tls.certificate is "+r.API.TLS.Certificate,
			"write api.tls.certificate: files, or remove this line")
	}
}
