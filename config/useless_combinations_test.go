package config

import (
	"fmt"
	"strings"
	"testing"
)

// float is a floating IP in a file of one line for each section.
const float = "floating_ip: {address: 192.0.2.10, interface: br-pxe}\n"

// TestPairsAreFound: each pair of options that is of no use names both options, the line of
// both, and what to write.
func TestPairsAreFound(t *testing.T) {
	const six = "floating_ip: {address: '2001:db8::10', interface: br-pxe}\n"
	const webhook = "haconfig:\n  kubeconfigs: [a=/x]\n"
	for name, test := range map[string]struct{ yaml, key, other, do string }{
		"Ironic's user without a login": {"ironic: {username: u}", "ironic.username", "ironic.auth_type is none",
			"http_basic or keystone"},
		"Ironic's password without a login": {"ironic:\n  password: p\n  auth_type: none", "ironic.password",
			"ironic.auth_type (trivet.yaml:3) is none", "or remove this line"},
		"Ironic's password of a file": {"ironic: {password_file: /p}", "ironic.password_file",
			"ironic.auth_type is none", "or remove this line"},
		"Keystone's user, never asked": {"api: {auth_strategy: noauth, keystone: {username: u}}",
			"api.keystone.username", "api.auth_strategy (trivet.yaml:1) is noauth", "keystone"},
		"Keystone's password, never asked": {
			"api: {auth_strategy: http_basic, http_basic_auth_user_file: /u, keystone: {password: p}}", "api.keystone.password",
			"is http_basic", "keystone"},
		"users of nothing": {"api: {auth_strategy: noauth, http_basic_auth_user_file: /u}",
			"api.http_basic_auth_user_file", "is noauth", "http_basic"},
		"the host's own address": {float + "api: {listen: '192.0.2.1:5050'}", "api.listen",
			"floating_ip.address (trivet.yaml:1) 192.0.2.10", `":5050"`},
		"this host alone": {float + "api: {listen: '127.0.0.1:5051'}", "api.listen",
			"floating_ip.address (trivet.yaml:1)", `":5051"`},
		"this host alone, by name": {float + "api: {listen: 'localhost:5050'}", "api.listen",
			"floating_ip.address (trivet.yaml:1)", `":5050"`},
		"this host alone, IPv6": {float + "api: {listen: '[::1]:5050'}", "api.listen",
			"floating_ip.address (trivet.yaml:1)", `":5050"`},
		"IPv6 before a floating IPv4": {float + "api: {listen: '[2001:db8::1]:5050'}", "api.listen",
			"floating_ip.address (trivet.yaml:1)", `":5050"`},
		"IPv4 before a floating IPv6": {six + "api: {listen: '192.0.2.1:5050'}", "api.listen",
			"floating_ip.address (trivet.yaml:1) 2001:db8::10", `":5050"`},
		"the floating IP itself": {float + "api: {listen: '192.0.2.10:5050'}", "api.listen",
			"the host that leads alone has floating_ip.address (trivet.yaml:1)", `":5050"`},
		"the floating IP, mapped into IPv6": {float + "api: {listen: '[::ffff:192.0.2.10]:5050'}", "api.listen",
			"floating_ip.address (trivet.yaml:1)", `":5050"`},
		"any free port": {float + "api: {listen: ':0'}", "api.listen",
			"floating_ip.address (trivet.yaml:1)", `":5050"`},
		"a proxy elsewhere": {float + "api: {listen: '127.0.0.1:5050', trusted_proxies: [192.0.2.7/32]}",
			"api.listen", "floating_ip.address (trivet.yaml:1)", "api.trusted_proxies"},
		"ramdisks' port on one address": {float + "api: {ramdisk_listen: '192.0.2.1:5056'}", "api.ramdisk_listen",
			"floating_ip.address (trivet.yaml:1)", `":5056"`},
		"ramdisks' port on any": {float + "api: {ramdisk_listen: ':0'}", "api.ramdisk_listen",
			"floating_ip.address (trivet.yaml:1)", `":5055"`},
		"peers' port on the floating IP": {float + "cluster: {listen: '192.0.2.10:7350'}", "cluster.listen",
			"floating_ip.address (trivet.yaml:1)", `":7350"`},
		"gossip on the floating IP": {float + "gossip: {listen: '192.0.2.10:7351'}", "gossip.listen",
			"floating_ip.address (trivet.yaml:1)", `":7351"`},
		"the floating IP is advertised": {float + "cluster: {advertise: '192.0.2.10:7350'}", "cluster.advertise",
			"floating_ip.address (trivet.yaml:1)", "this host alone has"},
		"gossip advertises the floating IP": {float + "gossip: {advertise: '192.0.2.10:7351'}", "gossip.advertise",
			"floating_ip.address (trivet.yaml:1)", "this host alone has"},
		"an election on the floating IP": {float + "elector: {listen: ['raft=192.0.2.10:4040']}", "elector.listen",
			"floating_ip.address (trivet.yaml:1)", `":4040"`},
		"the webhook on one address": {float + webhook + "  listen: 192.0.2.1:9443", "haconfig.listen",
			"floating_ip.address (trivet.yaml:1)", `":9443"`},
		"the webhook on the floating IP": {float + webhook + "  listen: 192.0.2.10:9443", "haconfig.listen",
			"floating_ip.address (trivet.yaml:1)", `":9443"`},
		"the webhook on any free port": {float + webhook + "  listen: ':0'", "haconfig.listen",
			"floating_ip.address (trivet.yaml:1)", `":9443"`},
		"via a floating IP that is not": {webhook, "haconfig.via", "haconfig.kubeconfigs (trivet.yaml:2)",
			"haconfig.via: endpoints"},
		"a pod via a floating IP": {"haconfig: {in_cluster: a}", "haconfig.via",
			"haconfig.in_cluster (trivet.yaml:1)", "floating_ip.address"},
		"endpoints, this host alone": {webhook + "  via: endpoints\n  listen: 127.0.0.1:9443", "haconfig.listen",
			"haconfig.via (trivet.yaml:3)", `":9443"`},
		"endpoints, any free port": {webhook + "  via: endpoints\n  listen: ':0'", "haconfig.listen",
			"haconfig.via (trivet.yaml:3)", `":9443"`},
		"endpoints, by a name": {webhook + "  via: endpoints\ncluster: {advertise: 'h1.example.org:7350'}",
			"cluster.advertise", "haconfig.via (trivet.yaml:3)", "the peer's address"},
		"endpoints, another address": {webhook +
			"  via: endpoints\n  listen: 198.51.100.1:9443\ncluster: {advertise: '192.0.2.1:7350'}", "haconfig.listen",
			"cluster.advertise (trivet.yaml:5)", `":9443"`},
		"endpoints, another than is dialled": {webhook +
			"  via: endpoints\n  listen: 198.51.100.1:9443\ncluster: {listen: '192.0.2.1:7350'}", "haconfig.listen",
			"cluster.listen (trivet.yaml:5)", `":9443"`},
		"another version of IP": {"cluster: {listen: '192.0.2.1:7350',\n advertise: '[2001:db8::1]:7350'}",
			"cluster.listen", "cluster.advertise (trivet.yaml:2)", "same version"},
		"gossip in another version of IP": {"gossip: {listen: '[2001:db8::1]:7351',\n advertise: '192.0.2.1:7351'}",
			"gossip.listen", "gossip.advertise (trivet.yaml:2)", "same version"},
		"advertised beyond this host": {"cluster: {listen: '127.0.0.1:7350',\n advertise: '192.0.2.1:7350'}",
			"cluster.listen", "cluster.advertise (trivet.yaml:2)", `":7350"`},
		"advertised on this host": {"gossip: {listen: '192.0.2.1:7351',\n advertise: '127.0.0.1:7351'}",
			"gossip.advertise", "gossip.listen (trivet.yaml:1)", "reach this peer"},
		"a port that changes": {"cluster: {listen: '192.0.2.1:0',\n advertise: 'h1:7350'}", "cluster.listen",
			"cluster.advertise (trivet.yaml:2)", `":7350"`},
		"two services at one port": {"cluster: {advertise: 'h1:7350'}\ngossip: {advertise: 'h1:7350'}",
			"gossip.advertise", "cluster.advertise (trivet.yaml:1)", "gossip.listen"},
		"Ironic here": {"api: {listen: ':6385'}", "ironic.endpoint", "api.listen (trivet.yaml:1)",
			"another port"},
		"ramdisks of Ironic at the floating IP": {
			float + "ironic: {ramdisk_endpoint: 'http://192.0.2.10:5050/v1'}\ninspection: {continue_inspection: relay}",
			"ironic.ramdisk_endpoint", "api.listen is :5050", "another port"},
		"Ironic at the floating IP": {float + "ironic: {endpoint: 'http://192.0.2.10:5050'}", "ironic.endpoint",
			"api.listen is :5050", "another port"},
		"Ironic at the peers' port": {
			"cluster: {advertise: '192.0.2.1:7350'}\nironic: {endpoint: 'https://192.0.2.1:7350/v1'}", "ironic.endpoint",
			"cluster.listen is :7350", "another port"},
		"Ironic at the port of its scheme": {
			"api: {listen: '127.0.0.1:443'}\nironic: {endpoint: 'https://localhost/baremetal'}", "ironic.endpoint",
			"api.listen (trivet.yaml:1)", "another port"},
		"Keystone here": {
			"api:\n  listen: ':5000'\n  auth_strategy: keystone\n  keystone: {auth_url: 'http://127.0.0.1:5000', username: u, password: p}",
			"api.keystone.auth_url", "api.listen (trivet.yaml:2)", "another port"},
		"Ironic's Keystone here": {
			"api: {listen: ':5000'}\nironic: {auth_type: keystone, auth_url: 'http://[::1]:5000/v3', username: u, password: p, project_name: s}",
			"ironic.auth_url", "api.listen (trivet.yaml:1)", "another port"},
		"a receiver here, whose path is a secret": {"api: {listen: ':8443'}\n" +
			"events: {receivers: ['chat=https://127.0.0.1:8443/hooks/x'], secrets: [chat=/s]}", "events.receivers",
			"https://127.0.0.1:8443 is where this peer itself listens: api.listen (trivet.yaml:1)", "another port"},
		"one directory for two": {"data_dir: /d\nbackup: {directory: /d/}", "backup.directory",
			"data_dir (trivet.yaml:1)", "path of its own"},
		"logs among the hosts of dnsmasq": {
			"firewall: {driver: dnsmasq}\ninspection: {processing: {ramdisk_logs_dir: /run/trivet-hosts}}",
			"inspection.processing.ramdisk_logs_dir", "firewall.dhcp_hostsdir", "path of its own"},
		"a socket in place of the data": {"data_dir: /d\nsocket: /d", "socket", "data_dir (trivet.yaml:1)",
			"path of its own"},
		"a turn after the end": {"inspection: {timeout: 60s,\n introspection_delay: 60s}", "inspection.reboot_throttle",
			"inspection.timeout (trivet.yaml:1)", "write less"},
		"all must be healthy": {"failover: {mode: safe, kubeconfigs: [a=/x], fence_file: /f,\n min_healthy: 100%}",
			"failover.min_healthy", "failover.mode (trivet.yaml:1)", "51%"},
		"none may be unhealthy": {"failover: {mode: safe, kubeconfigs: [a=/x], fence_file: /f,\n max_unhealthy: 0%}",
			"failover.max_unhealthy", "failover.mode (trivet.yaml:1)", "leave it empty"},
	} {
		c, problems := load(t, test.yaml)
		if len(problems) > 0 {
			t.Errorf("%s: each value and what a peer starts with is right: %v", name, problems)
		}
		found := c.CheckPairs()
		if len(found) != 1 || found[0].Key != test.key || !strings.Contains(found[0].What, test.other) ||
			!strings.Contains(found[0].Do, test.do) {
			t.Errorf("%s: %v\nwant one of %s that names %s and says %q", name, found, test.key, test.other, test.do)
		}
	}
}

// TestPairsThatWork: what answers where it is called is no pair that is refused, however it
// is written.
func TestPairsThatWork(t *testing.T) {
	for name, yaml := range map[string]string{
		"nothing written":           "",
		"every address":             float,
		"every IPv4 address":        float + "api: {listen: '0.0.0.0:5050'}",
		"every address, six":        float + "api: {listen: '[::]:5050'}",
		"a floating IPv6":           "floating_ip: {address: '2001:db8::10', interface: br-pxe}\napi: {listen: '0.0.0.0:5050'}",
		"a proxy on this host":      float + "api: {listen: '127.0.0.1:5050', trusted_proxies: [127.0.0.0/8]}",
		"a proxy at the host's own": float + "api: {listen: '192.0.2.1:5050', trusted_proxies: [192.0.2.1/32]}",
		"no floating IP":            "api: {listen: '192.0.2.1:5050'}",
		"elections of this host":    float + "elector: {listen: ['raft=127.0.0.1:16401']}",
		"peers on another network": float +
			"cluster: {listen: '198.51.100.1:7350'}\ngossip: {listen: '198.51.100.1:7351'}",
		"a webhook that is off":       float + "haconfig: {listen: '127.0.0.1:9443'}",
		"a webhook via endpoints":     "haconfig: {kubeconfigs: [a=/x], via: endpoints, listen: '192.0.2.1:9443'}\ncluster: {listen: '192.0.2.1:7350'}",
		"a router that translates":    "cluster: {listen: '192.0.2.1:7350', advertise: '203.0.113.1:17350'}",
		"a name":                      "cluster: {listen: '192.0.2.1:7350', advertise: 'h1.example.org:7350'}",
		"a trial on one host":         "cluster: {listen: '127.0.0.1:0', advertise: '127.0.0.1:7350'}",
		"Ironic on each host":         float + "ironic: {endpoint: 'http://192.0.2.10:6385'}",
		"Ironic on the same port":     "ironic: {endpoint: 'http://198.51.100.5:5050'}",
		"another address of loopback": "api: {listen: '127.0.0.2:6385'}",
		"backups below the data":      "data_dir: /d\nbackup: {directory: /d/backup}",
		"failover that is off":        "failover: {min_healthy: 100%}",
	} {
		c, problems := load(t, yaml)
		if found := c.CheckPairs(); len(problems)+len(found) > 0 {
			t.Errorf("%s: %v %v", name, problems, found)
		}
	}
}

// TestFloatingAddress: one rule says which addresses can be carried from host to host.
func TestFloatingAddress(t *testing.T) {
	for text, want := range map[string]bool{
		"192.0.2.10": true, "2001:db8::10": true, "fd00::1": true, "::ffff:192.0.2.10": true, "10.0.0.0": true,
		"": false, "192.0.2.10/24": false, "h1": false, "0.0.0.0": false, "0.1.2.3": false, "255.255.255.255": false,
		"127.0.0.1": false, "::1": false, "::": false,
		"169.254.1.1": false, "fe80::1": false, "fe80::1%eth0": false, "2001:db8::1%eth0": false, "224.0.0.1": false,
		"ff02::1": false, "::ffff:127.0.0.1": false,
	} {
		_, err := FloatingAddress(text)
		if (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
		_, problems := load(t, fmt.Sprintf("floating_ip: {address: %q, interface: br-pxe}", text))
		if text != "" && (len(problems) == 0) != want { // empty is none
			t.Errorf("the configuration takes %q: %v", text, problems)
		}
	}
}

// TestUnusedOptions: an option that counts only with another one is a warning without it.
func TestUnusedOptions(t *testing.T) {
	for yaml, key := range map[string]string{
		"api: {tls: {names: [a]}}":                                    "api.tls.names",
		"inspection: {processing: {always_store_ramdisk_logs: true}}": "inspection.processing.always_store_ramdisk_logs",
		"ironic: {ramdisk_endpoint: 'http://i:6385'}":                 "ironic.ramdisk_endpoint",
		"inspection: {discovery: {enroll_node_driver: ipmi}}":         "inspection.discovery.enroll_node_driver",
		"inspection: {port_physnet: {cidr_map: ['10.0.0.0/8:a']}}":    "inspection.port_physnet.cidr_map",
		"firewall: {dhcp_hostsdir: /x}":                               "firewall.dhcp_hostsdir",
		"backup: {keep: 3}":                                           "backup.keep",
		"elector: {identities: [h1=a]}":                               "elector.identities",
		"haconfig: {listen: ':9443'}":                                 "haconfig.listen",
		"backup: {keep: 3, directory: /b}":                            "",
		"firewall: {dhcp_hostsdir: /x, driver: dnsmasq}":              "",
		"elector: {identities: [h1=a], listen: [raft]}":               "",
	} {
		c, problems := load(t, yaml)
		got := c.Warnings()
		if len(problems) > 0 || (key == "") != (len(got) == 0) ||
			key != "" && (len(got) != 1 || got[0].Key != key || !strings.Contains(got[0].What, "is not used")) {
			t.Errorf("%s: %v %v, want a warning of %q", yaml, problems, got, key)
		}
	}
}
