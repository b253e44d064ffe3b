package inspectorconf

import (
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/config"
)

// compose carries over what several options say together, or one in words of
// its own.
func (c *converter) compose() {
	c.keeping()
	c.listening()
	c.users()
	c.hooks()
	c.devices()
	c.ramdiskLogs()
	c.filter()
	c.ironic()
}

// usualUsers is the file of users where the original has none that will do.
const usualUsers = "/etc/trivet/htpasswd"

// keeping says what is stored, and that it is for ever.
func (c *converter) keeping() {
	store := name{"processing", "store_data"}
	switch text, _ := c.get(store); strings.ToLower(strings.TrimSpace(text)) {
	case "none", "":
		c.set("inspection.store_data", "false", store)
	case "database":
		c.set("inspection.store_data", "true", store)
	default:
		c.set("inspection.store_data", "true", store)
		c.lose(store, loss{Lost, "Trivet keeps the data in its own log, nowhere else",
			"fetch what is stored there before the original is switched off"})
	}
	c.set("inspection.report_expiry", "0s", store)
}

// listening carries the port over. An address of the host's own stays behind: the API has to
// answer at the floating IP too, and a proxy that had it is no longer needed. What was this
// host's alone stays so: the import opens nothing.
func (c *converter) listening() {
	defer c.tls()
	address, at := name{"DEFAULT", "listen_address"}, name{"DEFAULT", "listen_port"}
	host, _ := c.get(address)
	port, ok := c.turned(at, asNumber)
	if !ok {
		return
	}
	host = strings.TrimSpace(host)
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && ip.IsLoopback(), host == "localhost":
		c.set("api.listen", net.JoinHostPort(host, port), address)
		c.lose(address, loss{Changed,
			"is carried over: this host alone reaches the API, and ramdisks that call the floating IP do not",
			fmt.Sprintf(
				`write api.listen: ":%s"; or, where a proxy on this host stands before the API, api.trusted_proxies: [127.0.0.0/8]`,
				port)})
		return
	case host != "" && (err != nil || !ip.IsUnspecified()):
		c.lose(address, loss{Changed,
			quoted(host) + " is not carried over: the API listens on every address, or it would not answer at the floating IP",
			fmt.Sprintf(
				"free port %s on each host, where a proxy such as HAProxy has it at another address; a packet filter keeps networks out",
				port)})
	}
	c.set("api.listen", ":"+port, at)
}

// tls takes the pair of files over. Where there is none that will do, the
// cluster's own certificate keeps the API encrypted.
func (c *converter) tls() {
	use := name{"DEFAULT", "use_ssl"}
	on, _ := c.turned(use, asBool)
	cert, key := name{"ssl", "cert_file"}, name{"ssl", "key_file"}
	certFile, _ := c.get(cert)
	keyFile, _ := c.get(key)
	if on != "true" {
		return
	}
	files := map[string]string{"api.tls.certificate": config.TLSFiles, "api.tls.cert_file": certFile,
		"api.tls.key_file": keyFile}
	if !accepted(files) {
		c.lose(use, loss{Changed,
			"certificate and key are not both named by an absolute path; one of the cluster's CA takes their place",
			"write api.tls.certificate: files, cert_file and key_file"})
		c.set("api.tls.certificate", config.TLSCluster, use)
		return
	}
	c.set("api.tls.certificate", config.TLSFiles, use)
	c.set("api.tls.cert_file", certFile, cert)
	c.set("api.tls.key_file", keyFile, key)
}

// accepted reports whether values could stand in a configuration by themselves.
func accepted(values map[string]string) bool {
	_, err := config.Load(config.Sources{Flags: values})
	return err == nil
}

// users never opens what was closed: where the original's way cannot be had, the
// API asks for a user of a file that the operator has yet to make.
func (c *converter) users() {
	strategy, file := name{"DEFAULT", "auth_strategy"}, name{"DEFAULT", "http_basic_auth_user_file"}
	text, _ := c.get(strategy)
	path, _ := c.get(file)
	switch strings.TrimSpace(text) {
	case "noauth":
		c.set("api.auth_strategy", "noauth", strategy)
		return
	case "http_basic":
		if path != "" && accepted(map[string]string{"api.http_basic_auth_user_file": path}) {
			break
		}
		c.lose(file, loss{Changed, "is not the absolute path of a file", "make " + usualUsers})
		path = usualUsers
	case config.StrategyKeystone:
		if c.askKeystone() {
			c.set("api.auth_strategy", config.StrategyKeystone, strategy)
			return
		}
		fallthrough
	default:
		c.lose(strategy, loss{Changed,
			"how to ask Keystone is not written so that Trivet could; http_basic is written in its place",
			"write api.auth_strategy: keystone and the section api.keystone, or make " + usualUsers + " with 'htpasswd -B'"})
		path = usualUsers
	}
	c.set("api.auth_strategy", "http_basic", strategy)
	c.set("api.http_basic_auth_user_file", path, file)
}

// hooks carries over those that Trivet has.
func (c *converter) hooks() {
	all := name{"processing", "processing_hooks"}
	c.read[name{"processing", "default_processing_hooks"}] = true
	text, _ := c.get(all)
	list, _ := asList(text)
	var known []string
	for hook := range strings.SplitSeq(list, ",") {
		switch {
		case hook == "", slices.Contains(known, hook):
		case slices.Contains(c.in.Hooks, hook):
			known = append(known, hook)
		default:
			c.lose(all, loss{Lost, "Trivet has no hook " + quoted(hook), "the hooks are " + strings.Join(c.in.Hooks, ", ")})
		}
	}
	c.set("inspection.processing.processing_hooks", strings.Join(known, ","), all)
}

// devices turns every alias that the file writes.
func (c *converter) devices() {
	alias := name{"pci_devices", "alias"}
	c.read[alias] = true
	var list []string
	for i, e := range c.file[alias] {
		c.file[alias] = c.file[alias][:i+1] // so that what is lost is lost on its line
		text, f := c.expand(alias.section, e.value, 0)
		if f == nil {
			text, f = asDevice(text)
		}
		switch {
		case f != nil:
			c.lose(alias, loss{Lost, f.what, f.do})
		case !slices.Contains(list, text):
			list = append(list, text)
		}
	}
	if len(list) > 0 {
		c.set("inspection.pci_devices.alias", strings.Join(list, ","), alias)
	}
}

// filter carries over who filters and where.
func (c *converter) filter() {
	driver, at := name{"pxe_filter", "driver"}, name{"iptables", "dnsmasq_interface"}
	text, _ := c.get(driver)
	device, written := c.get(at)
	switch strings.TrimSpace(text) {
	case "noop":
		c.set("firewall.driver", "noop", driver)
	case "iptables":
		c.set("firewall.driver", "auto", driver)
	case "dnsmasq":
		c.set("firewall.driver", "dnsmasq", driver)
		// The original's default is a place that Trivet's units may not write to.
		lists := name{"dnsmasq_pxe_filter", "dhcp_hostsdir"}
		const do = "restart dnsmasq with what 'trivet dnsmasq-config' prints"
		if path, written := c.get(lists); written {
			path = strings.TrimSpace(path)
			c.set("firewall.dhcp_hostsdir", path, lists)
			c.lose(lists, loss{Changed, "is carried over, and Trivet's units may write to /run/trivet-hosts alone",
				"allow it by ReadWritePaths=-" + path + " in drop-ins for trivet and trivet-firewall, or take it out and " + do})
		} else {
			c.lose(driver, loss{Changed, "keeps its files in another directory than the original did", do})
		}
		if !written {
			c.lose(driver, loss{Changed, "needs to know on which interface dnsmasq listens, which the original does not ask",
				"write firewall.interface"})
		}
	default:
		c.lose(driver, loss{Changed, quoted(text) + " is no driver of the original's; firewall.driver stays auto",
			"see firewall.driver"})
	}
	if written || c.values["firewall.driver"] != "noop" {
		c.set("firewall.interface", strings.TrimSpace(device), at)
	}
	c.strangers()
}

// writableDirs are where the unit of the packages lets Trivet write:
// StateDirectory=, RuntimeDirectory= and ReadWritePaths= of trivet.service.
func writableDirs() []string { return []string{"/var/lib/trivet", "/run/trivet", "/run/trivet-hosts"} }

// ramdiskLogs warns of a directory, which was carried over, that Trivet's unit
// may not write to: every upload of logs would fail.
func (c *converter) ramdiskLogs() {
	dir := c.values["inspection.processing.ramdisk_logs_dir"]
	within := func(root string) bool { return strings.HasPrefix(path.Clean(dir)+"/", root+"/") }
	if dir == "" || slices.ContainsFunc(writableDirs(), within) {
		return
	}
	c.lose(name{"processing", "ramdisk_logs_dir"},
		loss{Changed, "is carried over, and the unit trivet.service may not write to it (ProtectSystem=strict)",
			fmt.Sprintf(
				"run 'install -d -o trivet -g trivet -m 750 %[1]s', and with 'systemctl edit trivet' write [Service] and ReadWritePaths=-%[1]s; or choose a directory below /var/lib/trivet",
				dir)})
}

// strangers converts the settings for unknown machines. Those that are kept out stay
// out: under deny_unknown_macs discovery never worked.
func (c *converter) strangers() {
	deny, hook := name{"pxe_filter", "deny_unknown_macs"}, name{"processing", "node_not_found_hook"}
	unknown, ok := c.turned(deny, asBool)
	if ok {
		c.set("firewall.deny_unknown_macs", unknown, deny)
	}
	switch text, _ := c.get(hook); {
	case strings.TrimSpace(text) == "":
	case unknown == "true":
		c.lose(hook, loss{Lost, "deny_unknown_macs keeps out the machines that it would be asked about",
			"set one of the two"})
	default:
		c.set("inspection.processing.node_not_found_hook", strings.TrimSpace(text), hook)
	}
}

// quoted is a word of the file in a message, cut where it is long.
func quoted(word string) string {
	if len(word) > 80 {
		word = strings.ToValidUTF8(word[:80], "") + "…"
	}
	return `"` + strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, word) + `"`
}
