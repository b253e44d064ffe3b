package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func load(t *testing.T, yaml string, env ...string) (Config, Problems) {
	t.Helper()
	c, err := Load(Sources{File: "trivet.yaml", Text: []byte(yaml), Env: env, HostName: "h1"})
	return c, problemsOf(t, err)
}

func problemsOf(t *testing.T, err error) Problems {
	t.Helper()
	var problems Problems
	if err != nil && !errors.As(err, &problems) {
		t.Fatalf("error is a %T, want Problems: %v", err, err)
	}
	return problems
}

// sketch is the configuration file as it was first designed, but for its omissions
// and the hooks that do not exist.
const sketch = `
name: h1                        # default: host name
data_dir: /var/lib/trivet
socket: /run/trivet/trivet.sock
api: {listen: ":5050", auth_strategy: noauth, http_basic_auth_user_file: "", tls: {}}
cluster: {listen: ":7350", advertise: ""}
gossip: {listen: ":7351", advertise: ""}
ironic: {endpoint: "http://127.0.0.1:6385", auth_type: none, retries: 5, retry_interval: 1s, timeout: 30s}
inspection: {timeout: 900s, clean_up_period: 30s, introspection_delay: 0s, workers: 0, can_manage_boot: true, store_data: true, api_max_limit: 1000,
  processing: {processing_hooks: [ramdisk_error, root_disk_selection, scheduler, validate_interfaces, capabilities, pci_devices], add_ports: pxe, keep_ports: all, overwrite_existing: true, node_not_found_hook: ""}}
firewall: {driver: auto, interface: br-pxe, sync_period: 15s, deny_unknown_macs: false, lease: 400ms, match: ether}
floating_ip: {address: "", interface: ""}
raft: {timing: normal, log_store: bolt}
failover: {} # and lease, elector, haconfig: each off until configured
lease:
elector: {}
haconfig: {}
`

func TestSketchIsTheDefault(t *testing.T) {
	c, problems := load(t, sketch)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := Default()
	want.Name, want.API.AuthStrategy, want.API.RamdiskListen = "h1", "noauth", ":5055"
	c.origins, c.warnings, c.Ironic.origins = nil, nil, loginOrigins{}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("the sketch gives\n%+v\nthe defaults are\n%+v", c, want)
	}
}

func TestPrecedence(t *testing.T) {
	file := "raft:\n  timing: slow\ninspection:\n  workers: 3\n"
	sources := Sources{File: "f.yaml", Text: []byte(file), HostName: "h1"}
	steps := []struct {
		name   string
		add    func()
		want   string
		origin string
	}{
		{"file", func() {}, "slow", "f.yaml:2"},
		{"env", func() { sources.Env = []string{"TRIVET_RAFT_TIMING=fast", "PATH=/bin"} }, "fast", "TRIVET_RAFT_TIMING"},
		{"flag", func() { sources.Flags = map[string]string{"raft.timing": "normal"} }, "normal", "--raft-timing"},
	}
	for _, step := range steps {
		step.add()
		c, err := Load(sources)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if c.Raft.Timing != step.want || c.Origin("raft.timing").String() != step.origin {
			t.Errorf("%s: %q from %v, want %q from %s", step.name, c.Raft.Timing, c.Origin("raft.timing"), step.want,
				step.origin)
		}
		if c.Inspection.Workers != 3 || c.Origin("inspection.workers").Line != 4 {
			t.Errorf("%s: workers %d from %v", step.name, c.Inspection.Workers, c.Origin("inspection.workers"))
		}
		if got := c.Origin("api.listen").String(); got != "default" {
			t.Errorf("%s: origin of an unwritten key is %s", step.name, got)
		}
	}
}

func TestAListReplacesAList(t *testing.T) {
	c, problems := load(t, "inspection: {processing: {processing_hooks: [scheduler, example]}}\n")
	if got := c.Inspection.Processing.Hooks; len(problems) > 0 || !slices.Equal(got, []string{"scheduler", "example"}) {
		t.Errorf("hooks %q, problems %v", got, problems)
	}
	c, problems = load(t, "inspection: {processing: {processing_hooks: []}}\n")
	if got := c.Inspection.Processing.Hooks; len(problems) > 0 || len(got) != 0 {
		t.Errorf("hooks %q, problems %v", got, problems)
	}
}

// TestEveryKeyThroughEveryDoor gives each option a value that is not its
// default, through each source, and looks for it in the Config.
func TestEveryKeyThroughEveryDoor(t *testing.T) {
	for _, o := range Options() {
		value := otherValue(t, o)
		doors := map[string]Sources{
			"env":  {Env: []string{o.Env() + "=" + value}},
			"flag": {Flags: map[string]string{o.Key: value}},
			"file": {File: "f.yaml", Text: nested(o, value)},
		}
		for door, sources := range doors {
			c, err := Load(sources)
			for _, p := range problemsOf(t, err) {
				if p.Where.Kind != FromDefault && p.Do != "" && !aboutOthers(o.Key) {
					t.Errorf("%s by %s: %v", o.Key, door, p)
				}
			}
			got := reflect.ValueOf(o.field(&c)).Elem().Interface()
			want, f := o.parse(value)
			if f != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s by %s = %q is %v, want %v %v", o.Key, door, value, got, want, f)
			}
			if c.Origin(o.Key).Kind == FromDefault {
				t.Errorf("%s by %s: origin is %v", o.Key, door, c.Origin(o.Key))
			}
		}
	}
}

// aboutOthers names the keys that cannot stand alone.
func aboutOthers(key string) bool {
	return slices.Contains([]string{"floating_ip.address", "floating_ip.interface", "ironic.auth_type",
		"api.auth_strategy", "failover.mode", "events.receivers", "events.secrets", "events.kinds"}, key) ||
		strings.HasSuffix(key, "cert_file") || strings.HasSuffix(key, "key_file")
}

// nested writes one option as a file of its own.
func nested(o Option, value string) []byte {
	var b strings.Builder
	words := strings.Split(o.Key, ".")
	for depth, word := range words[:len(words)-1] {
		fmt.Fprintf(&b, "%s%s:\n", strings.Repeat("  ", depth), word)
	}
	fmt.Fprintf(&b, "%s%s: %s\n", strings.Repeat("  ", len(words)-1), words[len(words)-1], o.yaml(value))
	return []byte(b.String())
}

// otherValue finds a value that the option accepts and that is not its default.
func otherValue(t *testing.T, o Option) string {
	t.Helper()
	candidates := []string{"true", "false", "7", "640", "2s", "1200ms", "scheduler,example", "/etc/x/y", "h9",
		"ha.example.org/", "zones", "endpoints", "127.0.0.1:9999",
		"http://h9:6385", "192.0.2.9", "fast", "noauth", "http_basic", "enroll", "active", "present", "noop", "chaddr", "wal",
		"raft",
		"6,4", "8086:1572:x710", "10.1.0.0/16:leaf1", "10.1.0.0/16", "cluster", "native", "safe", "prod=/etc/x", "25%",
		"cmdb=https://c.example/", "cmdb=pxe", "warn", "json", "90m", "name=a* zones=b", "name=a* type=server"}
	for _, candidate := range candidates {
		if _, f := o.parse(candidate); f == nil && candidate != o.Default {
			return candidate
		}
	}
	t.Fatalf("%s accepts none of the candidates: add one", o.Key)
	return ""
}

func TestTable(t *testing.T) {
	variables := make(map[string]string)
	fields := make(map[string]bool)
	c := Default()
	for _, o := range Options() {
		section, name := split(o.Key)
		if !isSection(section) {
			t.Errorf("%s stands in no section", o.Key)
		}
		if name != strings.ToLower(name) || o.Help == "" {
			t.Errorf("%s: name in capitals, or no help", o.Key)
		}
		if other, taken := variables[o.Env()]; taken || otherEnv(o.Env()) {
			t.Errorf("%s of %s is taken by %s", o.Env(), o.Key, other)
		}
		variables[o.Env()] = o.Key
		value, _ := parseAs(o.field(&c), o.Default) // Default would have panicked
		if f := o.rule.checkValue(value); f != nil && o.Key != "name" {
			t.Errorf("default of %s: %+v", o.Key, f)
		}
		if got := fmt.Sprintf("%p", o.field(&c)); o.AliasOf == "" {
			if fields[got] {
				t.Errorf("%s shares a field with another option", o.Key)
			}
			fields[got] = true
		}
	}
	if leaves := countLeaves(reflect.TypeFor[Config]()); leaves != len(fields) {
		t.Errorf("Config has %d fields, the table %d: one has no row", leaves, len(fields))
	}
}

func countLeaves(t reflect.Type) int {
	n := 0
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case !f.IsExported():
		case f.Type.Kind() == reflect.Struct:
			n += countLeaves(f.Type)
		default:
			n++
		}
	}
	return n
}

func TestAliasSetsTheCanonicalKey(t *testing.T) {
	c, problems := load(t, "inspection: {introspection_delay: 5s}\n")
	if len(problems) > 0 || c.Inspection.RebootThrottle != 5*time.Second {
		t.Fatalf("throttle %v, problems %v", c.Inspection.RebootThrottle, problems)
	}
	for _, key := range []string{"inspection.introspection_delay", "inspection.reboot_throttle"} {
		if got := c.Origin(key).String(); got != "trivet.yaml:1" {
			t.Errorf("origin of %s is %s", key, got)
		}
	}
}

func TestAuthStrategyHasNoDefaultOffLoopback(t *testing.T) {
	for listen, want := range map[string]string{
		":5050": "", "0.0.0.0:5050": "", "[::]:5050": "", "192.0.2.1:5050": "",
		"127.0.0.1:5050": "noauth", "127.9.9.9:0": "noauth", "[::1]:5050": "noauth", "localhost:5050": "noauth",
	} {
		c, problems := load(t, fmt.Sprintf("api: {listen: %q}\n", listen))
		if len(problems) > 0 || c.API.AuthStrategy != want {
			t.Errorf("%s: strategy %q, want %q; problems %v", listen, c.API.AuthStrategy, want, problems)
		}
		refused := problemsOf(t, c.CheckServe())
		if (len(refused) == 0) != (want != "") {
			t.Errorf("%s: CheckServe says %v", listen, refused)
		}
	}
}

// Ramdisks have a port of their own wherever they can call, unless another option has it.
func TestRamdisksHaveAPortOffLoopback(t *testing.T) {
	for yaml, want := range map[string]string{
		"api: {listen: ':5050'}": ":5055", "api: {listen: '0.0.0.0:80'}": "0.0.0.0:5055",
		"api: {listen: '192.0.2.1:5050'}": "192.0.2.1:5055", "api: {listen: '[2001:db8::1]:5050'}": "[2001:db8::1]:5055",
		"api: {listen: '127.0.0.1:5050'}": "", "api: {listen: 'localhost:5050'}": "", "api: {listen: '[::1]:5050'}": "",
		"api: {listen: ':0'}": "", "api: {listen: ':5055'}": "", "gossip: {listen: '192.0.2.1:5055'}": "",
		"api: {listen: ':5050', ramdisk_listen: 'off'}":   "off",
		"api: {listen: ':5050', ramdisk_listen: ':5056'}": ":5056",
	} {
		c, problems := load(t, yaml+"\n")
		if len(problems) > 0 || c.API.RamdiskListen != want {
			t.Errorf("%s: %q, want %q; problems %v", yaml, c.API.RamdiskListen, want, problems)
		}
		key, listen := c.API.Ramdisks()
		if own := want != "" && want != ListenOff; own != (key == "api.ramdisk_listen" && listen == want) ||
			own == (key == "api.listen" && listen == c.API.Listen) {
			t.Errorf("%s: ramdisks call %s %s", yaml, key, listen)
		}
	}
	for yaml, want := range map[string]string{
		"api: {ramdisk_listen: nowhere}": "is not an address to listen on",
		"api: {ramdisk_listen: ':7350'}": "is taken by cluster.listen",
	} {
		_, problems := load(t, yaml+"\n")
		if len(problems) != 1 || !strings.Contains(problems[0].What, want) {
			t.Errorf("%s: %v, want %q", yaml, problems, want)
		}
	}
}

func TestHostNameIsTheDefaultName(t *testing.T) {
	for host, want := range map[string]string{"h1.example.org": "h1.example.org", "": "", "no good": "", "-x": ""} {
		c, err := Load(Sources{HostName: host, Flags: map[string]string{"api.listen": "127.0.0.1:0"}})
		if err != nil || c.Name != want {
			t.Errorf("%q: name %q, error %v", host, c.Name, err)
		}
		if refused := c.CheckServe(); (refused == nil) != (want != "") {
			t.Errorf("%q: CheckServe says %v", host, refused)
		}
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct{ yaml, key string }{
		{"inspection: {timeout: 901s}", "inspection.timeout"},
		{"api: {auth_strategy: noauth}", "api.auth_strategy"},
		{"firewall: {driver: noop}", "firewall.driver"},
		{"api: {auth_strategy: noauth, listen: '127.0.0.1:1', http_basic_readers: [ann]}", "api.http_basic_readers"},
		{"api: {tls: {key_file: /etc/x.pem}}", "api.tls.key_file"},
		{"inspection: {timeout: 900s}", ""},
		{"api: {auth_strategy: noauth, listen: '127.0.0.1:1'}", ""},
	}
	for _, test := range tests {
		c, problems := load(t, test.yaml)
		if len(problems) > 0 {
			t.Fatalf("%s: %v", test.yaml, problems)
		}
		warnings := c.Warnings()
		if test.key == "" {
			if len(warnings) > 0 {
				t.Errorf("%s: %v", test.yaml, warnings)
			}
		} else if len(warnings) != 1 || warnings[0].Key != test.key || warnings[0].Where.Line != 1 {
			t.Errorf("%s: %v, want one about %s on line 1", test.yaml, warnings, test.key)
		}
	}
}

func TestEffectiveListsEverythingOnceAndNoSecret(t *testing.T) {
	c, problems := load(t, "ironic: {auth_type: http_basic, username: u, password: hunter2}\n", "TRIVET_RAFT_TIMING=slow")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	seen := make(map[string]Setting)
	for _, s := range c.Effective() {
		if _, twice := seen[s.Key]; twice {
			t.Errorf("%s is listed twice", s.Key)
		}
		seen[s.Key] = s
	}
	for _, o := range Options() {
		if _, listed := seen[o.Key]; listed == (o.AliasOf != "") {
			t.Errorf("%s listed: %v", o.Key, listed)
		}
	}
	if s := seen["raft.timing"]; s.Value != "slow" || s.Origin.String() != "TRIVET_RAFT_TIMING" {
		t.Errorf("raft.timing: %+v", s)
	}
	if s := seen["ironic.password"]; s.Value != redacted || s.Origin.String() != "trivet.yaml:1" {
		t.Errorf("ironic.password: %+v", s)
	}
	if s := seen["inspection.timeout"]; s.Value != "15m" {
		t.Errorf("inspection.timeout: %+v", s)
	}
}

func TestOverlap(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{":1", ":1", true}, {":1", ":2", false}, {":0", ":0", false},
		{"192.0.2.1:1", "192.0.2.1:1", true}, {"192.0.2.1:1", "192.0.2.2:1", false},
		{"192.0.2.1:1", ":1", true}, {"0.0.0.0:1", "192.0.2.1:1", true}, {"[::]:1", "127.0.0.1:1", true},
		{"localhost:1", "127.0.0.1:1", true}, {"[::ffff:192.0.2.1]:1", "192.0.2.1:1", true}, {"[::1]:1", "[0:0::1]:1", true},
		{"127.0.0.1:1", "127.0.0.2:1", false},
		{"", ":1", false},
	} {
		a, okA := listenerOf("a", test.a)
		b, okB := listenerOf("b", test.b)
		if got := okA && okB && a.overlaps(b); got != test.want {
			t.Errorf("overlap(%q, %q) is %v", test.a, test.b, got)
		}
	}
}
