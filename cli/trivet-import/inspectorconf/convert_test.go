package inspectorconf

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
)

// hooks are those of the tests; Trivet's own are its own affair.
func hooks() []string {
	return []string{"ramdisk_error", "root_disk_selection", "scheduler", "validate_interfaces", "capabilities",
		"pci_devices", "extra_hardware"}
}

// convert turns a text that can be read, and loads what became of it.
func convert(t *testing.T, text string) (config.Config, Output) {
	t.Helper()
	out, err := Convert(Input{File: "inspector.conf", Text: []byte(text), Hooks: hooks()})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	c, err := config.Load(config.Sources{File: "trivet.yaml", Text: out.YAML})
	if err != nil {
		t.Fatalf("what was written is refused: %v\n%s", err, out.YAML)
	}
	return c, out
}

// TestDefaultsOfTheOriginal converts a file that says nothing: where the
// original's default differs it is written, and the API stays closed.
func TestDefaultsOfTheOriginal(t *testing.T) {
	c, out := convert(t, "")
	i := c.Inspection
	if i.Timeout != time.Hour || i.CleanUpPeriod != time.Minute || i.RebootThrottle != 5*time.Second ||
		i.ReportExpiry != 0 || i.StoreData {
		t.Errorf("introspection:\n%s", out.YAML)
	}
	if c.Firewall.Interface != "br-ctlplane" || c.Firewall.Driver != "auto" {
		t.Errorf("filter:\n%s", out.YAML)
	}
	if c.API.AuthStrategy != "http_basic" || c.API.HTTPBasicAuthUserFile != usualUsers {
		t.Errorf("the original asks Keystone, this asks nobody:\n%s", out.YAML)
	}
	if strings.Contains(string(out.YAML), "ports") {
		t.Errorf("defaults that are the same are written too:\n%s", out.YAML)
	}
	if len(out.Left) != 2 {
		t.Errorf("want a word on both logins: %v", out.Left)
	}
}

// TestCarriedOver looks for the lines that single options become.
func TestCarriedOver(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"seconds", "[DEFAULT]\ntimeout=77", "timeout: 77s"},
		{"never", "[DEFAULT]\ntimeout: 0", "timeout: 168h0m0s"},
		{"quoted", "[processing]\nadd_ports = 'active'", "add_ports: active"},
		{"the last of two", "[DEFAULT]\ntimeout=1\ntimeout=2", "timeout: 2s"},
		{"a truth value", "[capabilities]\nboot_mode = YES", "boot_mode: true"},
		{"another spelling", "[Capabilities]\nboot-mode = 1", "boot_mode: true"},
		{"several lines", "[processing]\nprocessing_hooks = scheduler,\n  ramdisk_error,\n\tcapabilities\n# x\n",
			"processing_hooks: [scheduler, ramdisk_error, capabilities]"},
		{"a reference", "[processing]\nprocessing_hooks = $default_processing_hooks,extra_hardware",
			"pci_devices, extra_hardware]"},
		{"a reference to what is written",
			"[processing]\ndefault_processing_hooks=scheduler\nprocessing_hooks=${processing.default_processing_hooks},capabilities",
			"[scheduler, capabilities]"},
		{"an address of the host", "[DEFAULT]\nlisten_address = 192.0.2.1\nlisten_port=5051", `listen: ":5051"`},
		{"an IPv6 address of the host", "[DEFAULT]\nlisten_address = 2001:db8::1\nlisten_port=5051", `listen: ":5051"`},
		{"a name of the host", "[DEFAULT]\nlisten_address = h1.example.org\nlisten_port=5051", `listen: ":5051"`},
		{"all IPv4 addresses", "[DEFAULT]\nlisten_address = 0.0.0.0\nlisten_port=5051", `listen: ":5051"`},
		{"this host alone", "[DEFAULT]\nlisten_address = 127.0.0.1\nlisten_port=5051", "listen: 127.0.0.1:5051"},
		{"a file of users", "[DEFAULT]\nauth_strategy=http_basic",
			"http_basic_auth_user_file: /etc/ironic-inspector/htpasswd"},
		{"a password", "[ironic]\nauth_type=http_basic\nusername=u\npassword = pa$$s: #1", `password: 'pa$s: #1'`},
		{"an older name", "[ironic]\nauth_strategy=noauth\nironic_url = http://192.0.2.9:6385",
			"endpoint: http://192.0.2.9:6385"},
		{"keystone", "[ironic]\nauth_url=https://k/v3\nusername=u\npassword=p\ntenant_name=service\ndefault_domain_name=D",
			"user_domain_name: D"},
		{"the endpoint that is the default",
			"[ironic]\nauth_type=password\nendpoint_override=http://127.0.0.1:6385\nauth_url=https://k/v3\nusername=u\npassword=p\nproject_name=s",
			"endpoint: http://127.0.0.1:6385"},
		{"a device",
			"[pci_devices]\nalias = {\"vendor_id\": \"8086\",\n   \"product_id\": \"0443\", \"name\": \"qat\"}\nalias={\"vendor_id\":\"10de\",\"product_id\":\"20b0\",\"name\":\"a100\"}",
			"alias: [8086:0443:qat, 10de:20b0:a100]"},
		{"networks", "[port_physnet]\ncidr_map = 10.0.0.0/8:a , 2001:db8::/64:b",
			`cidr_map: [10.0.0.0/8:a, 2001:db8::/64:b]`},
		{"fields", "[discovery]\nenroll_node_fields = management_interface:noop, owner: me",
			`enroll_node_fields: [management_interface:noop, owner:me]`},
		{"TLS", "[DEFAULT]\nuse_ssl=1\n[ssl]\ncert_file=/c.pem\nkey_file=/k.pem",
			"certificate: files\n    cert_file: /c.pem\n    key_file: /k.pem"},
		{"TLS without files", "[DEFAULT]\nuse_ssl=1\n[ssl]\ncert_file=c.pem\nkey_file=/k.pem", "certificate: cluster"},
		{"files for dnsmasq", "[pxe_filter]\ndriver=dnsmasq\n[dnsmasq_pxe_filter]\ndhcp_hostsdir=/srv/hosts",
			"dhcp_hostsdir: /srv/hosts"},
		{"driver dnsmasq", "[pxe_filter]\ndriver = dnsmasq", "driver: dnsmasq"},
		{"a certificate for Ironic", "[ironic]\nauth_type=none\ncafile=/ca.pem\ncertfile=/c.pem\nkeyfile=/k.pem",
			"ca_file: /ca.pem\n  cert_file: /c.pem\n  key_file: /k.pem"},
		{"certificate and key in one file", "[ironic]\nauth_type=none\ncertfile=/c.pem",
			"cert_file: /c.pem\n  key_file: /c.pem"},
		{"no check of certificates", "[ironic]\nauth_type=none\ninsecure=true", "insecure_skip_verify: true"},
		{"debug", "[DEFAULT]\ndebug = true", "level: debug"},
		{"no filter", "[pxe_filter]\ndriver = noop", "driver: noop"},
	} {
		if _, out := convert(t, tt.in); !strings.Contains(string(out.YAML), tt.want) {
			t.Errorf("%s: no %q in\n%s%v", tt.name, tt.want, out.YAML, out.Left)
		}
	}
}

// TestLeftBehind looks for what is said about options that have no place here,
// with their lines.
func TestLeftBehind(t *testing.T) {
	const closed = "[DEFAULT]\nauth_strategy=noauth\n[ironic]\nauth_type=none\n" // four lines
	for _, tt := range []struct{ name, in, want string }{
		{"unknown option", "[processing]\nbogus = 1", "inspector.conf:6: [processing] bogus: is no option"},
		{"unknown section", "[moon]\nphase = 1", "inspector.conf:6: [moon] phase: is no option"},
		{"section without a counterpart", "[database]\nconnection = mysql://u:sesame@h/i",
			"inspector.conf:6: [database] connection: Trivet keeps"},
		{"option without a counterpart", "[iptables]\nfirewall_chain = x",
			"inspector.conf:6: [iptables] firewall_chain: the name"},
		{"InfiniBand", "[iptables]\nethoib_interfaces = eth2, eth3",
			"inspector.conf:6: [iptables] ethoib_interfaces: Trivet does not filter Ethernet over InfiniBand"},
		{"the switch of an old filter", "[firewall]\nmanage_firewall = False",
			"inspector.conf:6: [firewall] manage_firewall: releases before 2018 had this option; true is what Trivet does, with firewall.driver auto; for false, where nothing is to be filtered, write firewall.driver: noop"},
		{"the interface of an old filter", "[firewall]\ndnsmasq_interface = br0",
			"inspector.conf:6: [firewall] dnsmasq_interface: releases before 2018 had this option; it is not carried over; write its value as firewall.interface"},
		{"an old filter", "[firewall]\nethoib_interfaces = eth2",
			"inspector.conf:6: [firewall] ethoib_interfaces: releases before 2018 had this section"},
		{"logging", "[DEFAULT]\nlog_file = /x", "inspector.conf:6: [DEFAULT] log_file: Trivet writes"},
		{"hook", "[processing]\nprocessing_hooks = scheduler,mine",
			`inspector.conf:6: [processing] processing_hooks: Trivet has no hook "mine"`},
		{"value", "[DEFAULT]\ntimeout = soon", `inspector.conf:6: [DEFAULT] timeout: "soon" is not a whole number`},
		{"bound", "[DEFAULT]\nintrospection_delay = 999999",
			"inspector.conf:6: [DEFAULT] introspection_delay: as inspection.reboot_throttle: "},
		{"reference to nothing", "[processing]\nadd_ports = $ports",
			"inspector.conf:6: [processing] add_ports: $ports refers to no option"},
		{"reference in a circle", "[processing]\nadd_ports = $keep_ports\nkeep_ports = $add_ports",
			"inspector.conf:6: [processing] add_ports: $"},
		{"references that grow", "[processing]\na=" + strings.Repeat("x", 1<<10) + "\nb=" + strings.Repeat("$a", 1<<10) +
			"\nadd_ports=$b", "inspector.conf:8: [processing] add_ports: the value has more than 65536 bytes"},
		{"the second device",
			"[pci_devices]\nalias={\"vendor_id\":\"8086\",\"product_id\":\"0443\",\"name\":\"qat\"}\nalias = {}",
			"inspector.conf:7: [pci_devices] alias: vendor_id, product_id and name"},
		{"discovery without unknown machines", "[pxe_filter]\ndeny_unknown_macs=1\n[processing]\nnode_not_found_hook=enroll",
			"inspector.conf:8: [processing] node_not_found_hook: deny_unknown_macs"},
		{"Swift", "[processing]\nstore_data=swift", "inspector.conf:6: [processing] store_data: Trivet keeps"},
		{"files of dnsmasq", "[pxe_filter]\ndriver=dnsmasq",
			"inspector.conf:6: [pxe_filter] driver: keeps its files in another directory"},
		{"where dnsmasq listens", "[pxe_filter]\ndriver=dnsmasq",
			"inspector.conf:6: [pxe_filter] driver: needs to know on which interface"},
		{"a directory of dnsmasq's", "[pxe_filter]\ndriver=dnsmasq\n[dnsmasq_pxe_filter]\ndhcp_hostsdir=/srv/hosts",
			"inspector.conf:8: [dnsmasq_pxe_filter] dhcp_hostsdir: is carried over, and"},
		{"a directory of another driver", "[dnsmasq_pxe_filter]\ndhcp_hostsdir=/srv/hosts",
			"inspector.conf:6: [dnsmasq_pxe_filter] dhcp_hostsdir: is for driver dnsmasq"},
		{"the start of dnsmasq", "[dnsmasq_pxe_filter]\ndnsmasq_start_command=/bin/true",
			"inspector.conf:6: [dnsmasq_pxe_filter] dnsmasq_start_command: Trivet starts and stops no dnsmasq"},
		{"the stop of dnsmasq", "[dnsmasq_pxe_filter]\ndnsmasq_stop_command=/bin/true",
			"inspector.conf:6: [dnsmasq_pxe_filter] dnsmasq_stop_command: Trivet starts and stops no dnsmasq"},
		{"a purge", "[dnsmasq_pxe_filter]\npurge_dhcp_hostsdir=false",
			"inspector.conf:6: [dnsmasq_pxe_filter] purge_dhcp_hostsdir: the unit trivet-firewall purges"},
		{"a key without its certificate", "[ironic]\nkeyfile=/k.pem",
			"inspector.conf:6: [ironic] keyfile: there is no certificate"},
		{"Keystone, which is not asked", "[keystone_authtoken]\nauth_url=https://k\npassword=sesame",
			"inspector.conf:6: [keystone_authtoken] auth_url: has no counterpart"},
		{"a login we do not have", "[ironic]\nauth_type=v3token", `inspector.conf:6: [ironic] auth_type: "v3token" is a way`},
		{"an address of the host", "[DEFAULT]\nlisten_address = 192.0.2.1",
			`inspector.conf:6: [DEFAULT] listen_address: "192.0.2.1" is not carried over`},
		{"this host alone", "[DEFAULT]\nlisten_address = ::1",
			"inspector.conf:6: [DEFAULT] listen_address: is carried over: this host alone reaches the API"},
		{"a delay that no introspection outlasts", "[DEFAULT]\ntimeout=60\nintrospection_delay=60",
			"inspector.conf:7: [DEFAULT] introspection_delay: as inspection.reboot_throttle: "},
		{"half a login", "[ironic]\nauth_type=password\nusername=u\npassword=p",
			"inspector.conf:6: [ironic] auth_type: as ironic."},
		{"TLS without files", "[DEFAULT]\nuse_ssl=true",
			"inspector.conf:6: [DEFAULT] use_ssl: certificate and key are not both"},
	} {
		_, out := convert(t, closed+tt.in)
		if !strings.Contains(fmt.Sprint(out.Left), tt.want) {
			t.Errorf("%s: no %q in\n%v", tt.name, tt.want, out.Left)
		}
		if strings.Contains(fmt.Sprint(out.Left), "sesame") {
			t.Errorf("%s: a secret is said aloud: %v", tt.name, out.Left)
		}
	}
	if _, out := convert(t, closed); len(out.Left) > 0 {
		t.Errorf("all was carried over, and this is said: %v", out.Left)
	}
}

// TestPasswordIsNotSaid refuses passwords in several ways and wants no part of
// them in the messages.
func TestPasswordIsNotSaid(t *testing.T) {
	for _, password := range []string{"open$sesame", "sesame\n  sesame", strings.Repeat("sesame", 2000)} {
		c, out := convert(t, "[ironic]\nauth_type=http_basic\nusername=u\npassword="+password)
		if strings.Contains(fmt.Sprint(out.Left), "sesame") || strings.Contains(string(out.YAML), "sesame") {
			t.Errorf("%.40q: %v\n%s", password, out.Left, out.YAML)
		}
		if c.Ironic.Password != "" || !strings.Contains(fmt.Sprint(out.Left), "[ironic] password") {
			t.Errorf("%.40q: nothing is said of it: %v", password, out.Left)
		}
	}
}

// TestNeverOpened tries what the original closes and Trivet cannot close in the
// same way, on a loopback address, where Trivet's own default is to be open.
func TestNeverOpened(t *testing.T) {
	for _, in := range []string{"", "auth_strategy = keystone", "auth_strategy = $nothing", "auth_strategy = ''",
		"auth_strategy=http_basic\nhttp_basic_auth_user_file=users",
		"auth_strategy=http_basic\nhttp_basic_auth_user_file=/" + strings.Repeat("x", 5000),
		"auth_strategy=http_basic\nhttp_basic_auth_user_file=/a\n  b"} {
		if c, out := convert(t, "[DEFAULT]\nlisten_address = 127.0.0.1\n"+in); c.API.AuthStrategy != "http_basic" {
			t.Errorf("%.60q is open:\n%s", in, out.YAML)
		}
	}
}

// TestKeystoneIsAsked converts the section of the original's middleware, in its
// newest names and in its oldest, and wants the secret in one place alone.
func TestKeystoneIsAsked(t *testing.T) {
	for _, in := range []string{
		"auth_type=password\nauth_url=https://k/v3\nwww_authenticate_uri=https://public/v3\nusername=trivet\npassword=ses$$ame\nproject_name=services\nuser_domain_name=U\nproject_domain_name=P\ncafile=/ca.pem\ntoken_cache_time=60",
		"auth_plugin=password\nidentity_uri=https://k/v3\nauth_uri=https://public/v3\nadmin_user=trivet\nadmin_password=ses$$ame\nadmin_tenant_name=services\nuser_domain_name=U\nproject_domain_name=P\ncafile=/ca.pem\ntoken_cache_time=60",
	} {
		c, out := convert(t, "[ironic]\nauth_type=none\n[keystone_authtoken]\n"+in)
		want := config.Default().API.Keystone
		want.AuthURL, want.AuthenticateURI, want.Username, want.Password, want.Project = "https://k/v3", "https://public/v3",
			"trivet", "ses$ame", "services"
		want.UserDomain, want.ProjectDomain, want.CacheTime, want.TLS.CAFile = "U", "P", time.Minute, "/ca.pem"
		if c.API.AuthStrategy != config.StrategyKeystone || !reflect.DeepEqual(c.API.Keystone, want) || len(out.Left) > 0 {
			t.Errorf("%s\nbecame\n%s%v", in, out.YAML, out.Left)
		}
		if !strings.Contains(string(out.YAML), "holds a password") {
			t.Errorf("nobody is warned of the password:\n%s", out.YAML)
		}
	}
	c, out := convert(t, "[keystone_authtoken]\nauth_url=https://k\npassword=sesame\ncafile=relative")
	if c.API.AuthStrategy != "http_basic" || !strings.Contains(fmt.Sprint(out.Left), "api.keystone.username") ||
		!strings.Contains(fmt.Sprint(out.Left), "cafile: as api.keystone.ca_file") {
		t.Errorf("half of it:\n%s%v", out.YAML, out.Left)
	}
	if strings.Contains(fmt.Sprint(out.Left)+string(out.YAML), "sesame") {
		t.Errorf("a secret is said aloud: %v", out.Left)
	}
}

func TestUnreadable(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"[DEFAULT\n", "inspector.conf:1: the line begins a section"},
		{"[]", "inspector.conf:1: the line begins a section"},
		{"[DEFAULT]\n\nnonsense\n", "inspector.conf:3: the line assigns nothing"},
		{"timeout=1", "inspector.conf:1: the option stands before the first section"},
		{"[DEFAULT]\n = 1", "inspector.conf:2: the line is indented"},
		{"[DEFAULT]\n= 1", "inspector.conf:2: the value has no name"},
		{"[DEFAULT]\na = 1\n\n  2", "inspector.conf:4: the line is indented"},
		{"[DEFAULT]\na = \xff", "inspector.conf:2: the line is not text"},
		{"\x00", "inspector.conf:1: the line is not text"},
		{strings.Repeat("#", config.MaxFile+1), "the file has"},
	} {
		_, err := Convert(Input{File: "inspector.conf", Text: []byte(tt.in)})
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40q: %v, want %q", tt.in, err, tt.want)
		}
	}
}

// TestGroups looks at what is lost, changed, and not needed.
func TestGroups(t *testing.T) {
	for _, tt := range []struct {
		name, in, key string
		want          Group
	}{
		{"a custom hook", "[processing]\nprocessing_hooks = scheduler,mine", "processing_hooks", Lost},
		{"policies", "[oslo_policy]\npolicy_file = /etc/x.yaml", "policy_file", Lost},
		{"data in Swift", "[swift]\ncontainer = c", "container", Lost},
		{"data that goes to Swift", "[processing]\nstore_data = swift", "store_data", Lost},
		{"an option that is not known", "[moon]\nphase = 1", "phase", Lost},
		{"a value that cannot be read", "[DEFAULT]\ntimeout = soon", "timeout", Lost},
		{"a value that Trivet refuses", "[DEFAULT]\nintrospection_delay = 999999", "introspection_delay", Lost},
		{"a database", "[database]\nconnection = x", "connection", Changed},
		{"a log file", "[DEFAULT]\nlog_file = /x", "log_file", Changed},
		{"a message broker", "[DEFAULT]\ntransport_url = x", "transport_url", NotNeeded},
		{"coordination", "[coordination]\nbackend_url = x", "backend_url", NotNeeded},
	} {
		_, out := convert(t, tt.in)
		i := slices.IndexFunc(out.Left, func(l Left) bool { return strings.HasSuffix(l.Key, " "+tt.key) })
		if i < 0 || out.Left[i].Group != tt.want {
			t.Errorf("%s: want %q of %s in %v", tt.name, tt.want, tt.key, out.Left)
		}
	}
}

// TestRamdiskLogsDir warns of a directory that the unit of the packages may not
// write to, and of no other.
func TestRamdiskLogsDir(t *testing.T) {
	for dir, warned := range map[string]bool{
		"/var/log/ironic-inspector/ramdisk": true, "/var/lib/trivet-logs": true, "/var/lib/trivet/../x": true,
		"/var/lib/trivet/ramdisk": false, "/var/lib/trivet": false,
	} {
		_, out := convert(t, "[processing]\nramdisk_logs_dir = "+dir)
		got := slices.ContainsFunc(out.Left, func(l Left) bool {
			return l.Group == Changed && strings.HasSuffix(l.Key, " ramdisk_logs_dir") &&
				strings.Contains(l.Do, "ReadWritePaths=-"+dir+";")
		})
		if got != warned {
			t.Errorf("unwritable-dir: %s: warned %v, want %v: %v", dir, got, warned, out.Left)
		}
	}
}

// TestWritableDirs holds the list to the unit of the packages.
func TestWritableDirs(t *testing.T) {
	unit, err := os.ReadFile("../../../packaging/files/trivet.service")
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for line := range strings.Lines(string(unit)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "StateDirectory":
			dirs = append(dirs, "/var/lib/"+value)
		case "RuntimeDirectory":
			dirs = append(dirs, "/run/"+value)
		case "ReadWritePaths":
			dirs = append(dirs, strings.TrimPrefix(value, "-"))
		}
	}
	if !slices.Equal(dirs, writableDirs()) {
		t.Errorf("trivet.service lets Trivet write to %v, writableDirs has %v", dirs, writableDirs())
	}
}

// TestImportedListensAtTheFloatingIP: whatever address of the host the original listened on,
// the API answers at a floating IP that is added later; what only this host reached, only
// this host reaches.
func TestImportedListensAtTheFloatingIP(t *testing.T) {
	for _, address := range []string{"", "0.0.0.0", "::", "192.0.2.1", "2001:db8::1", "h1.example.org", "127.0.0.1", "::1",
		"localhost"} {
		c, out := convert(t, "[DEFAULT]\nlisten_address = "+address+"\n")
		c.FloatingIP = config.FloatingIP{Address: "192.0.2.10", Interface: "br-pxe"}
		here := address == "127.0.0.1" || address == "::1" || address == "localhost"
		if refused := c.CheckPairs(); (len(refused) > 0) != here {
			t.Errorf("%q: api.listen is %s: %v\n%s", address, c.API.Listen, refused, out.YAML)
		}
	}
}
