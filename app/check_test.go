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
	for _, c := range []struct {
		name string
		set  func(*config.Config)
		want string // begins the error; "": there is none
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
	} {
		conf := config.Default()
		c.set(&conf)
		found := CheckStart(conf)
		if c.want == "" && len(found) > 0 ||
			c.want != "" && (len(found) != 1 || !strings.HasPrefix(found[0].Error(), c.want)) {
			t.Errorf("refused-start: %s: found %v, want %q", c.name, found, c.want)
		}
	}
}
