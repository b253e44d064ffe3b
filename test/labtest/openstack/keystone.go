//go:build e2e

package openstack

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"

	"github.com/trivet-ha/trivet/internal/keystone"
	"github.com/trivet-ha/trivet/test/testenv"
)

// KeystonePassword is every user's.
const KeystonePassword = "sesame"

// Keystone is an unmodified OpenStack Keystone on loopback: sqlite, Fernet
// tokens of a life of its own, and the server that comes with it for trials.
type Keystone struct {
	service
	addr string

	// Life is that of the tokens that the server issues from its next Start on.
	Life time.Duration
}

// StartKeystone installs Keystone if need be and starts one for this test, whose
// tokens live for an hour. Its user trivet has the role service in the project
// service.
func StartKeystone(t testing.TB) *Keystone {
	t.Helper()
	k := &Keystone{service: newService(t, "Keystone", "keystone.log", []string{"/usr/bin/keystone-manage"},
		"python3-keystone"), addr: testenv.FreePort(t), Life: time.Hour}
	t.Cleanup(k.close)
	k.makeKeys()
	k.configure()
	manage := func(args ...string) {
		k.manage("/usr/bin/keystone-manage", append([]string{"--config-file", k.path("keystone.conf")}, args...)...)
	}
	manage("db_sync")
	manage("bootstrap", "--bootstrap-password", KeystonePassword, "--bootstrap-public-url", k.URL(),
		"--bootstrap-region-id", "R1")
	// The API cannot make roles on sqlite, where it waits for itself.
	manage("bootstrap", "--bootstrap-password", KeystonePassword, "--bootstrap-username", "trivet",
		"--bootstrap-project-name", "service", "--bootstrap-role-name", "service")
	k.Start()
	return k
}

// URL is where it answers.
func (k *Keystone) URL() string { return "http://" + k.addr + "/v3" }

func (k *Keystone) makeKeys() {
	k.t.Helper()
	keys := k.path("keys")
	testenv.Must(k.t, os.Mkdir(keys, 0o700))
	for _, name := range []string{"0", "1"} { // the next one and the one in use
		key := make([]byte, 32)
		if _, err := rand.Read(key); err != nil {
			k.t.Fatal(err)
		}
		testenv.PutFile(k.t, k.dir, filepath.Join("keys", name), base64.URLEncoding.EncodeToString(key))
	}
}

func (k *Keystone) configure() {
	k.t.Helper()
	testenv.PutFile(k.t, k.dir, "keystone.conf", strings.NewReplacer("DIR", k.dir, "LIFE", fmt.Sprint(int(k.Life.Seconds()))).Replace(`[DEFAULT]
log_file = DIR/keystone.log
[database]
connection = sqlite:///DIR/keystone.sqlite
[token]
expiration = LIFE
[fernet_tokens]
key_repository = DIR/keys
[fernet_receipts]
key_repository = DIR/keys
[credential]
key_repository = DIR/keys
[cache]
enabled = false
`))
}

// Start runs the server and waits until it answers.
func (k *Keystone) Start() {
	k.t.Helper()
	k.configure()
	host, port, _ := strings.Cut(k.addr, ":")
	client := http.Client{Timeout: 10 * time.Second}
	k.run(k.command("/usr/bin/keystone-wsgi-public", "--host", host, "--port", port, "--", "--config-file",
		k.path("keystone.conf")), func() error {
		resp, err := client.Get(k.URL())
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}

// Stop ends the server, which heeds no other signal; the database stays.
func (k *Keystone) Stop() {
	k.t.Helper()
	if err := k.proc.End(syscall.SIGKILL, 10*time.Second); err != nil {
		k.t.Fatalf("stop Keystone: %v", err)
	}
}

// Token logs a user in, for a project or, with "", for the whole of the system.
func (k *Keystone) Token(user, project string) string {
	k.t.Helper()
	scope := tokens.Scope{System: true}
	if project != "" {
		scope = tokens.Scope{ProjectName: project, DomainID: "default"}
	}
	grant, err := keystone.LogIn(k.t.Context(), http.DefaultTransport, k.URL(),
		tokens.AuthOptions{Username: user, Password: KeystonePassword, DomainID: "default", Scope: scope})
	if err != nil {
		k.t.Fatalf("log in as %s: %v", user, err)
	}
	return grant.Token
}

// People makes projects and users: what a user may do, by name, as
// "role@project", or "role@" for the whole of the system.
func (k *Keystone) People(grants map[string]string) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), 2*readyLimit) // a user's password costs half a second of a processor
	defer cancel()
	provider, err := openstack.NewClient(k.URL())
	testenv.Must(k.t, err)
	provider.SetToken(k.Token("admin", "admin"))
	identity, err := openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{})
	testenv.Must(k.t, err)
	for name, grant := range grants {
		if err := k.person(ctx, identity, name, grant); err != nil {
			k.t.Fatalf("%s, %s: %v", name, grant, err)
		}
	}
}

func (k *Keystone) person(ctx context.Context, identity *gophercloud.ServiceClient, name, grant string) error {
	roleName, projectName, _ := strings.Cut(grant, "@")
	user, err := users.Create(ctx, identity,
		users.CreateOpts{Name: name, Password: KeystonePassword, DomainID: "default"}).Extract()
	if err != nil {
		return err
	}
	role, err := roleCalled(ctx, identity, roleName)
	if err != nil {
		return err
	}
	if projectName == "" {
		resp, err := identity.Put(ctx, identity.ServiceURL("system", "users", user.ID, "roles", role), nil, nil,
			&gophercloud.RequestOpts{OkCodes: []int{http.StatusNoContent}})
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	project, err := projects.Create(ctx, identity, projects.CreateOpts{Name: projectName, DomainID: "default"}).Extract()
	if err != nil {
		return err
	}
	return roles.Assign(ctx, identity, role, roles.AssignOpts{UserID: user.ID, ProjectID: project.ID}).ExtractErr()
}

// roleCalled finds the ID of a role.
func roleCalled(ctx context.Context, identity *gophercloud.ServiceClient, name string) (string, error) {
	page, err := roles.List(identity, roles.ListOpts{Name: name}).AllPages(ctx)
	if err != nil {
		return "", err
	}
	found, err := roles.ExtractRoles(page)
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d roles have this name", len(found))
	}
	if err != nil {
		return "", err
	}
	return found[0].ID, nil
}
