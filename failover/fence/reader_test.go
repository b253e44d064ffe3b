package fence

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/failover"
)

func defaults() Options {
	return Options{Ironic: &fakeIronic{}, Limits: Limits{5, time.Second, 10 * time.Second},
		Logger: slog.New(slog.DiscardHandler)}
}

// broken is a file with everything wrong, and all that is to be told of it.
type broken struct {
	name     string
	clusters []string
	text     string
	want     []string
}

// brokenShapes are files that are no list of devices, or of what all have.
func brokenShapes() []broken {
	return []broken{
		{"empty", nil, "", []string{"f.yaml: devices: the file lists none; write at least one"}},
		{"not YAML", nil, "devices: [", []string{"f.yaml:1: is not YAML: did not find expected node content"}},
		{"another key", nil, "device: []\n",
			[]string{"f.yaml:1: device: is not an option; did you mean devices?",
				"f.yaml:1: devices: is missing; list the devices below it, each after a dash"}},
		{"no list", nil, "devices: {}\n",
			[]string{"f.yaml:1: devices: is not a list, or an empty one; list the devices, each after a dash"}},
		{"types", nil, "devices:\n  - name: a\n    type: redfsh\n  - {name: b}\n  - x\n", []string{
			`f.yaml:3: devices[a].type: "redfsh" is no type of device; did you mean redfish?`,
			"f.yaml:4: devices[b].type: is missing; write one of ironic, redfish, agent",
			"f.yaml:5: devices[3]: is not a mapping; write KEY: VALUE lines below it",
		}},
		{"keys", nil, `devices:
  - name: A b
    type: ironic
    timeout: 10
    retrys: 3
    username: root
    retries: 21
    retry_interval: 2m
    nodes: {}
  - name: x
    type: ironic
    nodes: {worker-1: u1, Worker-2: u2, worker-3: u1, worker-1: u4, worker-5: [u], worker-6: }
  - name: x
    type: ironic
`, []string{
			`f.yaml:2: devices[1].name: "A b" is no name; use small letters, digits, dots and hyphens, at most 63`,
			"f.yaml:4: devices[1].timeout: is not a duration; write one such as 500ms, 10s or 1m30s",
			"f.yaml:5: devices[1].retrys: is not an option; did you mean retries?",
			"f.yaml:6: devices[1].username: is of no use for the type ironic; remove it",
			"f.yaml:7: devices[1].retries: is not a number from 0 to 20; write one",
			"f.yaml:8: devices[1].retry_interval: 2m0s is out of bounds; allowed is 100ms to 1m0s",
			"f.yaml:9: devices[1].nodes: lists no machine; write the kube nodes that the device reaches",
			"f.yaml:12: devices[x].nodes.worker-1: is written twice, first on line 12; remove one",
			"f.yaml:12: devices[x].nodes.Worker-2: is no name of a kube node; write it as kubectl get nodes does, or CLUSTER/NODE",
			"f.yaml:12: devices[x].nodes.worker-5: wants one value; write it on the same line",
			"f.yaml:12: devices[x].nodes.worker-6: has no value; write one, or remove the line",
			"f.yaml:12: devices[x].nodes.worker-3: is the same machine as that of worker-1 on line 12; write its own",
			"f.yaml:13: devices[x].name: is also that of the device on line 10; give each a name of its own",
		}},
	}
}

// brokenClusters name machines of clusters wrongly.
func brokenClusters() []broken {
	return []broken{
		{"clusters", []string{"prod", "lab"},
			"devices:\n  - name: a\n    type: ironic\n    nodes:\n      worker-1: u1\n      prd/worker-1: u2\n      prod/worker-1: u3\n      lab/worker-1: u4\n",
			[]string{
				"f.yaml:5: devices[a].nodes.worker-1: does not say in which cluster it is; write one of prod, lab, a slash, and the name: two clusters may have a node of that name",
				"f.yaml:6: devices[a].nodes.prd/worker-1: names a cluster that the configuration does not have; did you mean prod/worker-1?",
			}},
		{"one cluster", []string{"prod"},
			"devices:\n  - name: a\n    type: ironic\n    nodes:\n      worker-1: u1\n      prod/worker-1: u2\n", []string{
				"f.yaml:6: devices[a].nodes.prod/worker-1: is the same kube node as on line 5; remove one",
			}},
	}
}

// brokenKinds have what one type of device does not take.
func brokenKinds() []broken {
	return []broken{
		{"redfish", nil, `devices:
  - name: a
    type: redfish
    insecure_skip_verify: "yes"
    ca_file: ca.pem
    nodes:
      w1: 10.0.0.1
      w2: http://10.0.0.2/redfish/v1/Systems/1
      w3: https://root:x@10.0.0.3/redfish/v1/Systems/1
      w4: https://10.0.0.4/
      w5: https://10.0.0.5/redfish/v1/Systems/1
      w6: https://10.0.0.5/redfish/v1/systems/1/
`, []string{
			"f.yaml:2: devices[a].username: is missing; write it",
			"f.yaml:2: devices[a].password_file: is missing; write it",
			"f.yaml:4: devices[a].insecure_skip_verify: is not a truth value; write true or false, without quotes",
			"f.yaml:5: devices[a].ca_file: is not an absolute path; begin it with /",
			"f.yaml:7: devices[a].nodes.w1: is no URL; write it as https://BMC/redfish/v1/Systems/1",
			"f.yaml:8: devices[a].nodes.w2: would send the password in the clear; write https, or insecure_skip_verify: true on a network that only you can read",
			"f.yaml:9: devices[a].nodes.w3: holds a user; write username and password_file instead",
			"f.yaml:10: devices[a].nodes.w4: is not the URL of a machine; write it as https://BMC/redfish/v1/Systems/1",
			"f.yaml:12: devices[a].nodes.w6: is the same machine as that of w5 on line 11; write its own",
		}},
		{"agent", nil, `devices:
  - name: a
    type: agent
    options:
      action: reboot
      passwd: secret
      plug: 3
      lanplus: 1
      "a b": x
      ip: |
        10.0.0.1
        action=reboot
    nodes:
      w1: {ip: 10.0.0.1, Option: reboot}
      w2: {plug: 2}
      w3: {plug: "2"}
      w4: 10.0.0.4
`, []string{
			"f.yaml:2: devices[a].program: is missing; write it",
			"f.yaml:5: devices[a].options.action: is not for the file to say; remove it: trivet says off, on or status, and nothing else",
			"f.yaml:6: devices[a].options.passwd: is a password; write it into a file, and the file's name as password_file",
			"f.yaml:7: devices[a].options.plug: names one machine for all; write it under nodes, for each",
			"f.yaml:9: devices[a].options.(a key that is not shown): is no name of an option; write it as the program's manual page does, without hyphens in front",
			"f.yaml:10: devices[a].options.ip: holds the end of a line; write it without",
			"f.yaml:14: devices[a].nodes.w1.Option: is not for the file to say; remove it: trivet says off, on or status, and nothing else",
			"f.yaml:16: devices[a].nodes.w3: is the same machine as that of w2 on line 15; write its own",
			"f.yaml:17: devices[a].nodes.w4: is not a mapping; write KEY: VALUE lines below it",
		}},
	}
}

// TestProblemsOfAFile expects to be told all at once.
func TestProblemsOfAFile(t *testing.T) {
	for _, c := range slices.Concat(brokenShapes(), brokenClusters(), brokenKinds()) {
		o := defaults()
		o.Clusters = c.clusters
		_, problems := parse("f.yaml", []byte(c.text), o)
		if got, want := problems.Error(), strings.Join(c.want, "\n"); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, want)
		}
	}
}

// TestProblemsOfTheHost: what the file names is not there.
func TestProblemsOfTheHost(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "fence.yaml")
	text := `devices:
  - {name: a, type: ironic}
  - name: b
    type: redfish
    username: root
    password_file: ` + dir + `/none
    ca_file: ` + file + `
    nodes: {w1: "https://10.0.0.1/redfish/v1/Systems/1"}
  - {name: c, type: agent, program: fence_nobody, nodes: {w1: {ip: 10.0.0.1}}}
  - {name: d, type: agent, program: /usr/sbin/fence_scsi, nodes: {w1: {ip: 10.0.0.1}}}
  - {name: e, type: agent, program: sbin/fence_ipmilan, nodes: {w1: {ip: 10.0.0.1}}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := defaults()
	o.Ironic = nil
	_, err := Open(file, o)
	var problems config.Problems
	if !errors.As(err, &problems) {
		t.Fatal(err)
	}
	for i, want := range []string{
		":2: devices[a].type: there is no Ironic in the configuration",
		":6: devices[b].password_file: devices[b].password_file: open ",
		":7: devices[b].ca_file: ",
		":9: devices[c].program: fence_nobody is not installed here; install it on every peer (package fence-agents)",
		":10: devices[d].program: /usr/sbin/fence_scsi does not take the power away",
		":11: devices[e].program: sbin/fence_ipmilan is neither a name nor an absolute path",
	} {
		if i >= len(problems) || !strings.HasPrefix(problems[i].String(), file+want) {
			t.Fatalf("problem %d of\n%v\nis not %s", i, err, want)
		}
	}
	if len(problems) != 6 {
		t.Errorf("more problems than 6:\n%v", err)
	}
	if _, err := Open(dir+"/none.yaml", o); err == nil || !strings.HasPrefix(err.Error(), "failover.fence_file: ") {
		t.Errorf("%v", err)
	}
}

// TestOrderOfDevices is that of the file; a device takes part where it reaches.
func TestOrderOfDevices(t *testing.T) {
	dir := t.TempDir()
	program, err := filepath.Abs("testdata/fence_fake")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "fence.yaml")
	text := `devices:
  - name: ipmi
    type: agent
    program: ` + program + `
    options: {lanplus: 1, username: admin}
    nodes: {prod/worker-1: {ip: 10.0.0.21, ipport: 623}}
    timeout: 20s
  - {name: bmc, type: ironic, retries: 0}
  - {name: other, type: ironic, nodes: {prod/worker-2: u2}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := Open(file, defaults())
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	for node, want := range map[string]string{"worker-1": "ipmi bmc", "worker-2": "bmc other", "worker-3": "bmc"} {
		var names []string
		for _, d := range list.For(failover.Machine{Cluster: "prod", Node: node}) {
			names = append(names, d.Name())
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", node, got, want)
		}
	}
	first := list.devices[0]
	if want := (Limits{5, time.Second, 20 * time.Second}); first.limits != want {
		t.Errorf("%+v, want %+v", first.limits, want)
	}
	input := string(first.method.(*agent).input("off", first.nodes["prod/worker-1"], "x"))
	if want := "action=off\nlanplus=1\nusername=admin\nip=10.0.0.21\nipport=623\npasswd=x\n"; input != want {
		t.Errorf("the agent reads\n%s", input)
	}
}
