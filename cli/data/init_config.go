package data

import (
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/config"
)

const (
	firstUser     = "admin"    // of the API
	usersName     = "htpasswd" // next to the configuration
	passwordBytes = 15         // 120 bits, 24 letters and digits

	keyAuth  = "api.auth_strategy"
	keyUsers = "api.http_basic_auth_user_file"
)

// login is the user that init made; the password is stored nowhere.
type login struct{ name, password string }

// settlement is what is to be written so that this host can serve.
type settlement struct {
	values   map[string]string // into the configuration
	withheld int               // values that have no file to go to
	path     string            // of the file of users
	users    []byte            // its content; nil: it is not made
	missing  bool              // the file: an operator has to make it
	login    *login            // nil unless users were made up here
}

// settleAgain settles what is to be written for a joiner, by the file as it is now, since an operator may
// have written into it while the join waited: the flags that were given, and what the peer that let it in
// has and the file of this host does not set.
func settleAgain(t *term.Terminal, set *options.Set, shared cluster.Shared) (settled, error) {
	f, conf, err := readDraft(set)
	if err != nil {
		return settled{}, err
	}
	s := &settlement{values: givenFlags(t, set, f, conf)}
	adopted, unknown := conf.Adopt(shared.Settings)
	if len(unknown) > 0 {
		t.Warn(
			"the cluster's configuration has keys that this version does not know, and they were left out: %v; install the version of the other peers",
			unknown)
	}
	if adopted[keyAuth] == "http_basic" {
		delete(adopted, keyAuth) // decided with the users
	}
	if shared.NoSettings != "" {
		t.Warn("the peer that was asked gave no settings of the cluster: %s; write them as they are there", shared.NoSettings)
	}
	hasUsers := len(shared.Users) > 0 || shared.NoUsers != ""
	chosen := conf
	if hasUsers && conf.Origin(keyAuth).Kind == config.FromDefault {
		chosen.API.AuthStrategy = "" // noauth on loopback is a default, not the operator's choice
	}
	maps.Copy(s.values, adopted)
	s.withholdUnwritable(f)
	if adopted[keyAuth] == "" && hasUsers && s.wantsUsers(f, chosen) {
		if s.users, s.missing = shared.Users, len(shared.Users) == 0; s.missing {
			t.Warn("the peer that was asked gave no users of the API: %s; make %s here, the same as on another peer",
				shared.NoUsers, s.path)
		}
	}
	return checkPlan(t, set, f, conf, s)
}

// withholdUnwritable keeps values back that cannot be written.
func (s *settlement) withholdUnwritable(f *draft) {
	if f.why != nil {
		s.withheld, s.values = len(s.values), nil
	}
}

// wantsUsers decides whether a file of users is to be made, and plans the keys
// that go with it. One that is there is kept.
func (s *settlement) wantsUsers(f *draft, conf config.Config) bool {
	strategy := conf.API.AuthStrategy
	s.path = conf.API.HTTPBasicAuthUserFile
	switch {
	case strategy == "noauth":
		return false
	case f.why != nil && (strategy == "" || s.path == ""):
		return false // nothing would name the file; CheckServe asks for the keys
	}
	if strategy == "" {
		s.values[keyAuth] = "http_basic"
	}
	if s.path == "" {
		s.path = filepath.Join(filepath.Dir(f.path), usersName)
		s.values[keyUsers] = s.path
	}
	_, err := os.Stat(s.path)
	return errors.Is(err, fs.ErrNotExist)
}

// settleFounder settles what is to be written for the first peer, by the file as it is now: the flags that were
// given, and a user with a new password where the API would let in no user, or every client. The caller has
// locked the data directory: what another command has made since this one began counts.
func settleFounder(t *term.Terminal, set *options.Set) (w settled, err error) {
	f, conf, err := readDraft(set)
	if err != nil {
		return w, err
	}
	s := &settlement{values: givenFlags(t, set, f, conf)}
	s.withholdUnwritable(f)
	if s.wantsUsers(f, conf) {
		secret := make([]byte, passwordBytes)
		if _, err := io.ReadFull(t.Random, secret); err != nil {
			return w, fmt.Errorf("make a password: %w", err)
		}
		s.login = &login{firstUser, strings.ToLower(base32.StdEncoding.EncodeToString(secret))}
		line, err := api.NewUser(s.login.name, s.login.password)
		if err != nil {
			return w, err
		}
		s.users = []byte(line)
	}
	return checkPlan(t, set, f, conf, s)
}

// settled is a settlement that was checked, with the configuration that it leads to.
type settled struct {
	file *draft
	plan *settlement
	conf config.Config
	text []byte // of the file; nil: none is written
}

// checkPlan checks what was planned. Nothing is written yet.
func checkPlan(t *term.Terminal, set *options.Set, f *draft, conf config.Config, s *settlement) (settled, error) {
	if f.why != nil && !errors.Is(f.why, errNoFile) && (s.withheld > 0 || conf.CheckServe() != nil) {
		t.Warn("no configuration is written: %v; run this as root, or name a file with --config", f.why)
	}
	if len(s.values) == 0 {
		return settled{file: f, plan: s, conf: conf}, nil
	}
	text, err := config.Amend(f.path, f.text, s.values)
	if err != nil {
		return settled{}, term.Fail(term.ExitUsage, "write it into that file yourself: "+listed(s.values), "%w", err)
	}
	after, err := set.Parse(f.path, text)
	return settled{file: f, plan: s, conf: after, text: text}, options.Error(err)
}

// write writes what was settled: users before the keys that name them, so that the file is
// right whenever this ends.
func (w settled) write(t *term.Terminal) error {
	if w.text == nil {
		return saveUsers(t, w.plan)
	}
	err := w.file.untouched()
	if err == nil {
		err = w.file.makeRoom()
	}
	if err == nil {
		err = saveUsers(t, w.plan)
	}
	if err == nil {
		err = save(t, w.file, w.text, w.plan.values)
	}
	return err
}

// saveUsers makes the file of users, if one is to be made, and tells who may
// come in.
func saveUsers(t *term.Terminal, s *settlement) error {
	if s.users != nil {
		if err := local.Replace(s.path, s.users, local.SecretFile, nil); err != nil {
			return term.Fail(term.ExitFailed, "make that directory, or write api.http_basic_auth_user_file",
				"users of the API: %w", err)
		}
		t.Say("%s: wrote the users of the API, the same on every peer", s.path)
	} else if s.values[keyUsers] != "" && !s.missing {
		t.Say("%s: was there and was kept", s.path)
	}
	if s.login != nil { // also with -q: no command can show it later
		fmt.Fprintf(t.Err,
			"trivet: user %s of the API has the password %s, shown this once; a new one: 'htpasswd -B %s %s' on every peer\n",
			s.login.name, s.login.password, s.path, s.login.name)
	}
	return nil
}

// makeRoom makes the directory of the usual file, where no package did. Its mode
// does not depend on root's umask: the service must get in.
func (f *draft) makeRoom() error {
	const everybodyEnters = 0o755
	dir := filepath.Dir(f.path)
	err := os.Mkdir(dir, everybodyEnters)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = os.Chmod(dir, everybodyEnters)
	}
	if err != nil {
		return term.Fail(term.ExitFailed, "run this as root, or name another file with --config", "configuration: %w", err)
	}
	return nil
}

// sayServe says what comes next, and what would keep it from working.
func sayServe(t *term.Terminal, set *options.Set, conf config.Config) {
	next := nextCommand(set)
	problems, _ := errors.AsType[config.Problems](conf.CheckServe())
	for _, problem := range problems {
		t.Warn("before '%s': %v", next, problem)
	}
	for _, file := range []struct{ key, path string }{
		{"ironic.password_file", conf.Ironic.PasswordFile}, {"ironic.ca_file", conf.Ironic.TLS.CAFile},
		{"ironic.cert_file", conf.Ironic.TLS.CertFile},
		{"ironic.key_file", conf.Ironic.TLS.KeyFile}, {keyUsers, conf.API.HTTPBasicAuthUserFile},
		{"api.keystone.password_file", conf.API.Keystone.PasswordFile},
		{"api.keystone.ca_file", conf.API.Keystone.TLS.CAFile}, {"api.keystone.cert_file", conf.API.Keystone.TLS.CertFile},
		{"api.keystone.key_file", conf.API.Keystone.TLS.KeyFile},
	} {
		if _, err := os.Stat(file.path); file.path != "" && errors.Is(err, fs.ErrNotExist) {
			t.Warn("before '%s': %s: %s is not on this host; copy it from another peer", next, file.key, file.path)
		}
	}
	if conf.Firewall.Driver != "noop" {
		switch link, err := net.InterfaceByName(conf.Firewall.Interface); {
		case err != nil:
			t.Warn("before '%s': firewall.interface: %s is not on this host; write the interface on which machines boot", next,
				conf.Firewall.Interface)
		case link.Flags&net.FlagUp == 0:
			t.Warn("before '%s': firewall.interface: %s is down; 'ip link set %s up', and in this host's network configuration",
				next, link.Name, link.Name)
		}
	}
	for _, problem := range health.FloatingProblems(conf) {
		t.Warn("before '%s': %s", next, problem.Text)
	}
	t.Say("next, here: '%s'", next)
}

// nextCommand is how the peer is started on this host.
func nextCommand(set *options.Set) string {
	if named := set.Named(); named != "" && named != options.DefaultFile {
		return "trivet serve --config " + named
	}
	if hasUnit("/") {
		return "systemctl start trivet"
	}
	return "trivet serve"
}

// hasUnit reports whether systemd runs this host and knows the service; root is
// that of the file system.
func hasUnit(root string) bool {
	if _, err := os.Stat(filepath.Join(root, "run/systemd/system")); err != nil {
		return false
	}
	for _, dir := range []string{"etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"} {
		if _, err := os.Stat(filepath.Join(root, dir, "trivet.service")); err == nil {
			return true
		}
	}
	return false
}
