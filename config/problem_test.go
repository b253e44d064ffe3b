package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// problemCase is one bad file or environment, and the beginnings of the lines
// that must be said about it: all of them, in this order.
type problemCase struct {
	name string
	yaml string
	env  []string
	want []string
}

// The keyProblems are about names.
var keyProblems = []problemCase{
	{"unknown top key", "nmae: h1\n", nil, []string{"trivet.yaml:1: nmae: is not an option; did you mean name?"}},
	{"unknown key in a section", "api:\n  lisen: ':1'\n", nil,
		[]string{"trivet.yaml:2: api.lisen: is not an option; did you mean api.listen?"}},
	{"unknown section", "firewal: {driver: auto}\n", nil,
		[]string{"trivet.yaml:1: firewal: is not an option; did you mean firewall?"}},
	{"key of another section", "inspection:\n  sync_period: 15s\n", nil,
		[]string{"trivet.yaml:2: inspection.sync_period: is not an option; did you mean firewall.sync_period?"}},
	{"nothing near", "zzzzzzzzzzzz: 1\n", nil, []string{"trivet.yaml:1: zzzzzzzzzzzz: is not an option; remove it"}},
	{"path for a key", "api.listen: ':1'\n", nil,
		[]string{"trivet.yaml:1: api.listen: is not an option; a file has sections"}},
	{"path inside a section", "inspection: {processing.add_ports: all}\n", nil,
		[]string{"trivet.yaml:1: inspection.processing.add_ports: is not an option; a file has sections"}},
	{"section of a later version", "elector: {zzzzzzzz: safe}\n", nil,
		[]string{"trivet.yaml:1: elector.zzzzzzzz: is not an option; remove it"}},
}

// The typeProblems are about types and simple bounds.
var typeProblems = []problemCase{
	{"bare number", "inspection: {timeout: 900}\n", nil,
		[]string{"trivet.yaml:1: inspection.timeout: 900 is a number without a unit; write 900s for seconds"}},
	{"bare zero", "firewall: {sync_period: 0}\n", nil,
		[]string{"trivet.yaml:1: firewall.sync_period: 0 is a number without a unit; write 0s"}},
	{"odd duration", "inspection: {timeout: 1 hour}\n", nil,
		[]string{`trivet.yaml:1: inspection.timeout: "1 hour" is not a duration; write a number and its unit`}},
	{"timeout of never", "inspection: {timeout: 0s}\n", nil,
		[]string{"trivet.yaml:1: inspection.timeout: 0s is not allowed; write a duration of more than 0s"}},
	{"timeout of a month", "inspection: {timeout: 720h}\n", nil,
		[]string{"trivet.yaml:1: inspection.timeout: 720h is too long; at most 168h"}},
	{"throttle of hours", "inspection: {introspection_delay: 61m}\n", nil,
		[]string{"trivet.yaml:1: inspection.introspection_delay: 1h1m is out of bounds; allowed is 0s to 1h"}},
	{"negative", "inspection: {report_expiry: -1s}\n", nil,
		[]string{"trivet.yaml:1: inspection.report_expiry: -1s is out of bounds; allowed is 0s to"}},
	{"too often", "firewall: {sync_period: 31s}\n", nil,
		[]string{"trivet.yaml:1: firewall.sync_period: 31s is out of bounds; allowed is 0s to 30s"}},
	{"lease too long", "firewall: {lease: 2s}\n", nil,
		[]string{"trivet.yaml:1: firewall.lease: 2s is out of bounds; allowed is 300ms to 1.5s"}},
	{"not a number", "inspection: {workers: many}\n", nil,
		[]string{`trivet.yaml:1: inspection.workers: "many" is not a whole number`}},
	{"quoted number", "inspection: {workers: '3'}\n", nil,
		[]string{"trivet.yaml:1: inspection.workers: is text, wants number; write it without quotes"}},
	{"fraction", "inspection: {workers: 1.5}\n", nil,
		[]string{`trivet.yaml:1: inspection.workers: "1.5" is not a whole number`}},
	{"truth", "inspection: {store_data: yes}\n", nil,
		[]string{`trivet.yaml:1: inspection.store_data: "yes" is neither true nor false`}},
	{"number for text", "name: 12\n", nil, []string{"trivet.yaml:1: name: is read as a number"}},
	{"no value", "name:\n", nil, []string{"trivet.yaml:1: name: has no value; write one, or remove the line"}},
	{"section for a value", "name: {a: b}\n", nil, []string{"trivet.yaml:1: name: wants one value (text)"}},
	{"value for a section", "api: 5050\n", nil,
		[]string{"trivet.yaml:1: api: is a section; write KEY: VALUE lines below it"}},
	{"text for a list", "inspection: {processing: {processing_hooks: scheduler}}\n", nil,
		[]string{"trivet.yaml:1: inspection.processing.processing_hooks: is not a list"}},
	{"list of numbers", "inspection:\n  processing:\n    processing_hooks:\n      - 5\n", nil,
		[]string{"trivet.yaml:4: inspection.processing.processing_hooks: the item on line 4 is not text"}},
	{"hook twice", "inspection: {processing: {processing_hooks: [a, b, a]}}\n", nil,
		[]string{`trivet.yaml:1: inspection.processing.processing_hooks: "a" stands in the list twice`}},
	{"misspelt word", "raft: {timing: fsat}\n", nil,
		[]string{`trivet.yaml:1: raft.timing: "fsat" is not known; did you mean "fast"? One of fast, normal, slow`}},
	{"other log store", "raft: {log_store: sqlite}\n", nil,
		[]string{`trivet.yaml:1: raft.log_store: "sqlite" is not known; one of bolt, wal`}},
}

// The syntaxProblems are about what stands where.
var syntaxProblems = []problemCase{
	{"written twice", "name: a\nname: b\n", nil,
		[]string{"trivet.yaml:2: name: is written twice, first on line 1; remove one"}},
	{"section twice", "raft: {}\napi: {}\nraft: {}\n", nil,
		[]string{"trivet.yaml:3: raft: is written twice, first on line 1"}},
	{"tab", "api:\n\tlisten: ':1'\n", nil, []string{"trivet.yaml:2: a tab cannot indent a line; indent with blanks"}},
	{"not YAML", "name: h1\napi: [\n", nil, []string{"trivet.yaml:2: is not YAML: "}},
	{"unclosed quote", "name: h1\nsocket: \"/run\n", nil, []string{"trivet.yaml:2: is not YAML: "}},
	{"not YAML on line 1", "name: a: b\n", nil, []string{"trivet.yaml:1: is not YAML: mapping values"}},
	{"alias of nothing", "api: {}\nname: *h1\n", nil,
		[]string{"trivet.yaml:2: the word behind a * is an alias of nothing; put text that begins with * in quotes"}},
	{"not UTF-8", "name: h1\n# \xff\n", nil, []string{"trivet.yaml:2: is not UTF-8"}},
	{"a bell", "name: h1\n# \a\n", nil, []string{"trivet.yaml:2: holds the control character U+0007"}},
	{"tab far from the mistake", "name: \"h\n\t1\"\n\n\n\napi: [\n", nil, []string{"trivet.yaml:6: is not YAML: "}},
	{"not a mapping", "- name\n- h1\n", nil, []string{"trivet.yaml:1: the file is not a mapping; write KEY: VALUE lines"}},
	{"one word", "hello\n", nil, []string{"trivet.yaml:1: the file is not a mapping"}},
	{"an INI file", "[DEFAULT]\ndebug = true\n", nil,
		[]string{
			"trivet.yaml:1: is a section of an INI file, not YAML; an inspector.conf of ironic-inspector is translated by 'trivet-import config FILE'"}},
	{"an INI file with comments", "# hello\n\n[ironic]\nauth_url=http://h\n[pxe_filter]\ndriver = iptables\n", nil,
		[]string{"trivet.yaml:3: is a section of an INI file"}},
	{"an INI file with colons", "[DEFAULT]\ndebug: true\nhost = h1\n", nil,
		[]string{"trivet.yaml:1: is a section of an INI file"}},
	{"two documents", "name: a\n---\nname: b\n", nil, []string{"trivet.yaml:2: the file holds more than one document"}},
	{"alias", "name: &n h1\nsocket: *n\n", nil, []string{"trivet.yaml:2: socket: is an alias; write the value out"}},
	{"merge key", "api: &a {}\ncluster:\n  <<: *a\n", nil, []string{"trivet.yaml:3: cluster.<<: is an alias"}},
	{"mapping as a key", "? {a: b}\n: c\n", nil, []string{"trivet.yaml:1: a key must be a word"}},
}

// The valueProblems are about single values.
var valueProblems = []problemCase{
	{"relative path", "data_dir: data\n", nil,
		[]string{`trivet.yaml:1: data_dir: is not an absolute path; begin it with /`}},
	{"long socket", "socket: /" + strings.Repeat("x", 107) + "\n", nil,
		[]string{"trivet.yaml:1: socket: the path is 108 bytes long; at most 107"}},
	{"port missing", "api: {listen: 0.0.0.0}\n", nil,
		[]string{`trivet.yaml:1: api.listen: "0.0.0.0" is not an address to listen on`}},
	{"port too high", "api: {listen: ':70000'}\n", nil,
		[]string{`trivet.yaml:1: api.listen: ":70000" is not an address to listen on`}},
	{"advertise everything", "cluster: {advertise: '0.0.0.0:7350'}\n", nil,
		[]string{`trivet.yaml:1: cluster.advertise: "0.0.0.0:7350" is every address and none`}},
	{"advertise nothing", "cluster: {advertise: ':7350'}\n", nil,
		[]string{`trivet.yaml:1: cluster.advertise: ":7350" is not an address that others can reach`}},
	{"same port", "api: {listen: ':7350'}\n", nil, []string{"cluster.listen: :7350 is taken by api.listen (:7350)"}},
	{"password in the URL", "ironic: {endpoint: 'http://u:hunter2@h'}\n", nil,
		[]string{"trivet.yaml:1: ironic.endpoint: holds a user name or password; write them under"}},
	{"not a URL", "ironic: {endpoint: '127.0.0.1:6385'}\n", nil,
		[]string{"trivet.yaml:1: ironic.endpoint: is not the URL of a service"}},
}

// The crossProblems are about values that do not fit each other.
var crossProblems = []problemCase{
	{"basic without users", "api: {auth_strategy: http_basic}\n", nil,
		[]string{"trivet.yaml:1: api.auth_strategy: http_basic needs users; write api.http_basic_auth_user_file"}},
	{"TLS without files", "api: {tls: {certificate: files, cert_file: /etc/x.pem}}\n", nil,
		[]string{"trivet.yaml:1: api.tls.certificate: files needs them; write api.tls.cert_file and api.tls.key_file"}},
	{"TLS of a CA", "api: {tls: {certificate: cluster, names: [api.example.org, '192.0.2.7']}}\n", nil, nil},
	{"a URL for a name", "api: {tls: {names: ['https://h']}}\n", nil,
		[]string{`trivet.yaml:1: api.tls.names: "https://h" is not host names or addresses`}},
	{"a proxy's name", "api: {trusted_proxies: [proxy1]}\n", nil,
		[]string{`trivet.yaml:1: api.trusted_proxies: "proxy1" is not networks, as 192.0.2.0/24`}},
	{"Ironic's basic without user", "ironic: {auth_type: http_basic}\n", nil,
		[]string{"trivet.yaml:1: ironic.auth_type: http_basic needs a user"}},
	{"Ironic's basic with a file", "ironic: {auth_type: http_basic, username: u, password_file: /run/secret}\n", nil, nil},
	{"two passwords", "ironic: {auth_type: http_basic, username: u, password: hunter2, password_file: /run/secret}\n", nil,
		[]string{"trivet.yaml:1: ironic.password_file: there is ironic.password too; remove one"}},
	{"keystone alone", "ironic: {auth_type: keystone}\n", nil,
		[]string{"trivet.yaml:1: ironic.auth_type: keystone needs a user", "ironic.auth_url: keystone needs it",
			"ironic.project_name: keystone needs it"}},
	{"keystone without domains",
		"ironic: {auth_type: keystone, auth_url: 'https://k:5000', username: u, password: p, project_name: service, user_domain_name: '', project_domain_name: ''}\n",
		nil,
		[]string{"trivet.yaml:1: ironic.user_domain_name: keystone needs it",
			"trivet.yaml:1: ironic.project_domain_name: keystone needs it"}},
	{"keystone's URL", "ironic: {auth_url: 'k:5000'}\n", nil,
		[]string{"trivet.yaml:1: ironic.auth_url: is not the URL of a service"}},
	{"address without interface", "floating_ip: {address: 192.0.2.1}\n", nil,
		[]string{"trivet.yaml:1: floating_ip.address: no interface carries the address"}},
	{"interface without address", "floating_ip: {interface: eth0}\n", nil,
		[]string{"trivet.yaml:1: floating_ip.interface: there is no address for it"}},
	{"address with a mask", "floating_ip: {address: 192.0.2.1/24, interface: eth0}\n", nil,
		[]string{`trivet.yaml:1: floating_ip.address: "192.0.2.1/24" is not an IP address; write it without a mask`,
			"trivet.yaml:1: floating_ip.interface: there is no address"}},
	{"loopback address", "floating_ip: {address: 127.0.0.1, interface: lo}\n", nil,
		[]string{`trivet.yaml:1: floating_ip.address: "127.0.0.1" cannot be carried`,
			"trivet.yaml:1: floating_ip.interface: there is no address"}},
	{"long interface", "firewall: {interface: abcdefghijklmnop}\n", nil,
		[]string{`trivet.yaml:1: firewall.interface: "abcdefghijklmnop" cannot be a network interface`}},
	{"discovery and denial",
		"firewall: {deny_unknown_macs: true}\ninspection: {processing: {node_not_found_hook: enroll}}\n", nil,
		[]string{"trivet.yaml:1: firewall.deny_unknown_macs: keeps out the machines"}},
	{"chaddr with iptables", "firewall:\n  driver: iptables\n  match: chaddr\n", nil,
		[]string{
			"trivet.yaml:3: firewall.match: chaddr is inside DHCP, where firewall.driver iptables does not look; write firewall.driver: nftables or dnsmasq, or firewall.match: ether"}},
	{"ether with dnsmasq", "firewall:\n  driver: dnsmasq\n  match: ether\n", nil,
		[]string{
			"trivet.yaml:3: firewall.match: ether is the frame's source, and firewall.driver dnsmasq compares what stands inside DHCP; write chaddr, or firewall.driver: nftables"}},
	{"keeping none of none", "inspection: {processing: {add_ports: disabled, keep_ports: added}}\n", nil,
		[]string{
			"trivet.yaml:1: inspection.processing.keep_ports: added keeps the ports of inspection.processing.add_ports, which is disabled; write all"}},
	{"both names", "inspection:\n  reboot_throttle: 1s\n  introspection_delay: 1s\n", nil,
		[]string{
			"trivet.yaml:3: inspection.introspection_delay: is another name of inspection.reboot_throttle, which is set too (trivet.yaml:2)"}},
	{"both names, two sources", "inspection: {reboot_throttle: 1s}\n",
		[]string{"TRIVET_INSPECTION_INTROSPECTION_DELAY=2s"},
		[]string{
			"TRIVET_INSPECTION_INTROSPECTION_DELAY: inspection.introspection_delay: is another name of inspection.reboot_throttle, which is set too (trivet.yaml:1)"}},
}

// The envProblems are about variables, and about nothing at all.
var envProblems = []problemCase{
	{"unknown variable", "", []string{"TRIVET_API_LISTN=:1"},
		[]string{"TRIVET_API_LISTN: no option has this variable; did you mean TRIVET_API_LISTEN?"}},
	{"far variable", "", []string{"TRIVET_ZZZZZZZZZZZZZZZZZZ=1"},
		[]string{"TRIVET_ZZZZZZZZZZZZZZZZZZ: no option has this variable; unset it"}},
	{"variable of a section", "", []string{"TRIVET_API=1"}, []string{"TRIVET_API: no option has this variable"}},
	{"bad variable", "", []string{"TRIVET_INSPECTION_TIMEOUT=15"},
		[]string{"TRIVET_INSPECTION_TIMEOUT: inspection.timeout: 15 is a number without a unit"}},
	{"clients' variables", "",
		[]string{"TRIVET_SERVER=http://h", "TRIVET_CONFIG=/x", "TRIVET_FENCING_TOKEN=7", "TRIVET_SIM_LOSSES=3", "TRIVETTE=1"},
		nil},
	{"control character", "ironic: {username: \"a\\nb\"}\n", nil,
		[]string{"trivet.yaml:1: ironic.username: holds a control character"}},
	{"all at once", "nmae: h1\ninspection:\n  timeout: 0s\n  workers: -1\nraft: {timing: x}\n", []string{"TRIVET_X=1"},
		[]string{
			"trivet.yaml:1: nmae: is not an option",
			"trivet.yaml:3: inspection.timeout: 0s is not allowed",
			"trivet.yaml:4: inspection.workers: -1 is out of bounds; allowed is 0 to 1024",
			`trivet.yaml:5: raft.timing: "x" is not known`,
			"TRIVET_X: no option has this variable",
		}},
	{"empty file", "", nil, nil},
	{"comments alone", "# nothing\n", nil, nil},
	{"empty sections", "api:\nraft: {}\ninspection:\n  processing:\n", nil, nil},
}

func TestProblems(t *testing.T) {
	for _, test := range slices.Concat(keyProblems, typeProblems, syntaxProblems, valueProblems, crossProblems,
		failoverProblems, envProblems) {
		t.Run(test.name, func(t *testing.T) {
			_, problems := load(t, test.yaml, test.env...)
			if len(problems) != len(test.want) {
				t.Fatalf("%d problems, want %d:\n%v", len(problems), len(test.want), problems)
			}
			for i, want := range test.want {
				if got := problems[i].String(); !strings.HasPrefix(got, want) {
					t.Errorf("problem %d is\n%s\nwant\n%s", i, got, want)
				}
			}
			if strings.Contains(problems.Error(), "hunter2") {
				t.Errorf("a password is shown: %v", problems)
			}
		})
	}
}

func TestUnknownFlag(t *testing.T) {
	_, err := Load(Sources{Flags: map[string]string{"no.such": "1", "data_dir": "relative"}})
	problems := problemsOf(t, err)
	if len(problems) != 2 || problems[0].Where.String() != "--data-dir" || problems[1].Key != "no.such" {
		t.Errorf("%v", problems)
	}
}

func TestFileTooLarge(t *testing.T) {
	_, problems := load(t, strings.Repeat("#", MaxFile+1))
	if len(problems) != 1 || !strings.Contains(problems[0].What, "bytes") {
		t.Errorf("%v", problems)
	}
}

func TestAConfigWithProblemsKeepsWhatIsGood(t *testing.T) {
	c, problems := load(t, "raft: {timing: slow}\ninspection: {workers: -1, timeout: 60s}\n")
	if len(problems) != 1 || c.Raft.Timing != "slow" || c.Inspection.Workers != 0 || c.Inspection.Timeout.Seconds() != 60 {
		t.Errorf("%+v, problems %v", c, problems)
	}
}

func TestManyProblemsAreCutOff(t *testing.T) {
	var text strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&text, "key%d: 1\n", i)
	}
	if _, problems := load(t, text.String()); len(problems) != maxProblems {
		t.Errorf("%d problems, want %d", len(problems), maxProblems)
	}
}
