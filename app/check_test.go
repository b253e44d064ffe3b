package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/config"
)

// What a start refuses is found before it, also in files that are there; one that is missing may
// be made before the start.
func TestWhatAStartRefusesIsFoundBefore(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("admin:plain text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fences := func(text string) func(*config.Config) {
		path := filepath.Join(t.TempDir(), "fence.yaml")
		writeFiles(t, "", map[string]string{path: text})
		return func(conf *config.Config) { conf.Failover.Mode, conf.Failover.FenceFile = config.FailoverSafe, path }
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	writeFiles(t, "", map[string]string{kubeconfig: "apiVersion: v1\nkind: Config\ncurrent-context: none\n"})
	redfish := "devices:\n- name: r\n  type: redfish\n  username: u\n  password_file: /missing\n  ca_file: /missing\n" +
		"  nodes: {w1: 'https://192.0.2.8/redfish/v1/Systems/1'}\n"
	for _, c := range []struct {
		name string
		set  func(*config.Config)
		want string // is in the error; "": there is none
	}{
		{"nothing", func(*config.Config) {}, ""},
		{"a kind that is none", func(conf *config.Config) {
			conf.Events = config.Events{Receivers: []string{"cmdb=https://192.0.2.1/"},
				Secrets: []string{"cmdb=/missing"}, Kinds: []string{"cmdb=introspections"}}
		}, `events.kinds: "introspections"`},
		{"a secret that is missing", func(conf *config.Config) {
			conf.Events = config.Events{Receivers: []string{"cmdb=https://192.0.2.1/"},
				Secrets: []string{"cmdb=/missing"}, Kinds: []string{"cmdb=introspection"}}
		}, ""},
		{"a damaged file of users", func(conf *config.Config) {
			conf.API.AuthStrategy, conf.API.HTTPBasicAuthUserFile = "http_basic", users
		}, "api.http_basic_auth_user_file: "},
		{"a file of users that is missing", func(conf *config.Config) {
			conf.API.AuthStrategy, conf.API.HTTPBasicAuthUserFile = "http_basic", users+".missing"
		}, ""},
		{"a file name of ramdisks' logs", func(conf *config.Config) {
			conf.Inspection.Processing.RamdiskLogsDir = t.TempDir()
			conf.Inspection.Processing.RamdiskLogsFilenameFormat = "{odd}"
		}, "inspection.processing.ramdisk_logs_filename_format: "},
		{"a file of devices that is missing", func(conf *config.Config) {
			conf.Failover.Mode, conf.Failover.FenceFile = config.FailoverSafe, "/missing"
		}, ""},
		{"a damaged file of devices", fences("devices:\n- {name: bmc, typ: agent}\n"),
			"fence.yaml:2: devices[bmc].type: is missing"},
		{"an agent that is not installed",
			fences("devices:\n- {name: a, type: agent, program: /missing, nodes: {w1: {ip: 192.0.2.1}}}\n"),
			"devices[a].program: "},
		{"a password of a device that is missing", fences(redfish), ""},
		{"a damaged file of devices, whose password is missing", fences(redfish + "  typ: x\n"),
			"fence.yaml:8: devices[r].typ: "},
		{"a damaged kubeconfig", func(conf *config.Config) {
			conf.Failover.Mode, conf.Failover.Kubeconfigs = config.FailoverNooBaa, []string{"prod=" + kubeconfig}
		}, "failover.kubeconfigs: kubeconfig " + kubeconfig},
		{"a damaged kubeconfig of haconfig", func(conf *config.Config) {
			conf.HAConfig.Listen, conf.HAConfig.Kubeconfigs = "127.0.0.1:0", []string{"prod=" + kubeconfig}
		}, "haconfig.kubeconfigs: kubeconfig " + kubeconfig},
		{"kubeconfigs that are missing", func(conf *config.Config) {
			conf.Failover.Mode, conf.Failover.Kubeconfigs = config.FailoverNooBaa, []string{"prod=/missing"}
			conf.HAConfig.Listen, conf.HAConfig.Kubeconfigs = "127.0.0.1:0", []string{"prod=/missing"}
		}, ""},
	} {
		conf := config.Default()
		c.set(&conf)
		found := CheckStart(conf)
		if c.want == "" && len(found) > 0 ||
			c.want != "" && (len(found) != 1 || !strings.Contains(found[0].Error(), c.want)) {
			t.Errorf("refused-start: %s: found %v, want %q", c.name, found, c.want)
		}
	}
}
