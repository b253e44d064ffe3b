//go:build e2e

package labtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

const (
	ansibleLimit  = 20 * time.Minute
	ansibleSecret = "hummingbird-in-ironic" // a password that no output may show
	ansibleUser   = "hummingbird-in-api"
)

// TestAnsible has contrib/ansible take three hosts from nothing to a serving cluster,
// again without a change, and to another version while machines are introspected.
func TestAnsible(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t, "ip", "mmdebstrap", "systemd-nspawn", "nsenter", "dpkg-deb", "xz", "ansible-playbook")
	deb := buildPackage(t)
	ironic := openstack.StartIronic(t, 100)
	machines := ironic.Enroll(0, 20)
	p := newPackaged(t, ironic.Addr)
	p.password = ansibleUser
	a := newPlaybooks(t, p)

	began := time.Now()
	if said := a.play(deb, "site.yml", "--check"); said.changed == 0 {
		t.Errorf("check mode on hosts without anything would change nothing:\n%s", said.text)
	}
	if said, err := p.hosts[0].Try("test", "-e", "/usr/bin/trivet"); err == nil {
		t.Fatalf("check mode installed trivet: %s", said)
	}
	a.play(deb, "site.yml")
	p.voters(p.hosts...)
	p.answers()
	t.Logf("from nothing to an answer on the floating IP: %v", time.Since(began).Round(time.Second))
	for _, again := range [][]string{{"site.yml"}, {"site.yml", "--check"}, {"upgrade.yml"}} {
		if said := a.play(deb, again...); said.changed != 0 {
			t.Errorf("%v on what is there already changes %d things:\n%s", again, said.changed, said.text)
		}
	}
	for _, recorder := range []string{"false", "true"} { // it needs a restart, which is upgrade.yml's: no host fails
		a.play(deb, "site.yml", "-e", `{"trivet_host_config": {"firewall": {"recorder": `+recorder+`}}}`)
	}
	p.introspect(ironic, machines[0])
	a.upgrades(ironic, newer(t, deb), machines[1:])
	a.staysOne(deb)
}

// upgrades has one host after the other upgraded while machines are introspected.
func (a *playbooks) upgrades(ironic *openstack.Ironic, deb string, machines []openstack.Machine) {
	a.t.Helper()
	p := a.lab
	address := p.floating + ":5050"
	ready := calls(a.t, "upgrade by Ansible", address, "/readyz", 50*time.Millisecond, true)
	inventory, done := a.inventory(deb), make(chan played, 1)
	go func() { done <- a.run(inventory, "upgrade.yml") }()
	finished := 0
	for ; finished < len(machines) && len(done) == 0; finished++ {
		p.introspect(ironic, machines[finished])
	}
	said := testwait.ReceiveWithin(a.t, ansibleLimit, done, "the upgrade ends")
	ready.end()
	if said.err != nil || said.changed == 0 {
		a.t.Fatalf("upgrade: %v\n%s", said.err, said.text)
	}
	p.voters(p.hosts...)
	want := strings.TrimSpace(string(mustOutput(a.t, "dpkg-deb", "-f", deb, "Version")))
	for _, h := range p.hosts {
		if got := h.Must("dpkg-query", "-W", "-f", "${Version}", "trivet"); got != want {
			a.t.Errorf("%s has version %s after the upgrade, want %s", h.name, got, want)
		}
		if exe := h.Must("sh", "-c",
			"readlink /proc/$(systemctl show --property MainPID --value trivet)/exe"); strings.Contains(exe, "deleted") {
			a.t.Errorf("%s runs the old binary: %s", h.name, exe)
		}
	}
	a.t.Logf("upgrade by Ansible: %d introspections finished meanwhile", finished)
	ready.verdict(a.t, 3*time.Second, func(time.Time) bool { return false })
	for _, finalize := range []string{"trivet_finalize=false", "trivet_finalize=true"} { // a new cluster begins finalized
		if again := a.play(deb, "upgrade.yml", "-e", finalize); again.changed != 0 {
			a.t.Errorf("the second upgrade to one version, %s, changes %d things:\n%s", finalize, again.changed, again.text)
		}
	}
}

// staysOne installs a host anew that was the first of the group: it joins the others and
// founds nothing.
func (a *playbooks) staysOne(deb string) {
	a.t.Helper()
	first, p := a.lab.hosts[0], a.lab
	cluster := func(h *packagedHost) string {
		s, err := h.status()
		testenv.Must(a.t, err)
		return s.Cluster
	}
	was := cluster(p.hosts[1])
	first.Must("sh", "-c", "systemctl stop trivet && rm -rf /var/lib/trivet/peer")
	a.play(deb, "site.yml")
	p.voters(p.hosts...)
	if now := cluster(first); now != was {
		a.t.Errorf("%s founded the cluster %s next to %s", first.name, now, was)
	}
}

// playbooks runs contrib/ansible against packaged hosts, by a stand-in for ssh that
// enters their namespaces.
type playbooks struct {
	t      testing.TB
	lab    *Packaged
	dir    string
	ironic string // its address, as the hosts reach it
	hash   string // of the API's password, the same in each run
}

// played is what a run of a playbook said.
type played struct {
	text    string
	changed int
	err     error
}

func newPlaybooks(t testing.TB, p *Packaged) *playbooks {
	t.Helper()
	a := &playbooks{t: t, lab: p, dir: t.TempDir(), ironic: p.Tap.Door("hosts", p.net.Gateway+":0"),
		hash: hashed(t, ansibleUser)}
	a.write("ssh", 0o755, `#!/bin/sh
# Stands in for ssh: the last two words are the host and the command.
while [ $# -gt 2 ]; do shift; done
init=$(cat "`+a.dir+`/$1.pid") || exit 255
exec nsenter --all --target "$init" env -i HOME=/root LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /bin/sh -c "$2"
`)
	for _, h := range p.hosts {
		a.write(h.name+".pid", 0o644, h.init)
	}
	return a
}

func (a *playbooks) write(name string, mode os.FileMode, text string) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	testenv.Must(a.t, os.WriteFile(path, []byte(text), mode))
	return path
}

// inventory writes one for a package.
func (a *playbooks) inventory(deb string) string {
	a.t.Helper()
	hosts := ""
	for i, h := range a.lab.hosts {
		hosts += fmt.Sprintf("    %s: {ansible_host: %s, trivet_address: \"%s:7350\"}\n", h.name, h.name, a.lab.net.site(i+1))
	}
	return a.write("inventory.yml", 0o600,
		strings.NewReplacer("HOSTS", hosts, "DEB", deb, "HASH", a.hash, "SECRET", ansibleSecret, "PXE", string(PXE),
			"SITE", string(Site),
			"IRONIC", a.ironic, "FLOATING", a.lab.floating, "SSH", filepath.Join(a.dir, "ssh")).Replace(`
trivet:
  hosts:
HOSTS
  vars:
    ansible_connection: ssh
    ansible_ssh_executable: SSH
    ansible_ssh_transfer_method: piped
    ansible_pipelining: true
    ansible_user: root
    ansible_become: false
    ansible_python_interpreter: /usr/bin/python3
    trivet_package: DEB
    trivet_config:
      api: {auth_strategy: http_basic, http_basic_auth_user_file: /etc/trivet/htpasswd}
      ironic: {endpoint: "http://IRONIC", auth_type: http_basic, username: admin, password_file: /etc/trivet/ironic.password}
      firewall: {interface: PXE}
      floating_ip: {address: FLOATING, interface: SITE}
    trivet_api_users: ["admin:HASH"]
    trivet_secret_files: {/etc/trivet/ironic.password: SECRET}
    trivet_dhcp: true
    trivet_dhcp_arguments: [--batch, "20"]
`))
}

// run runs a playbook, with all that Ansible tells.
func (a *playbooks) run(inventory string, words ...string) (said played) {
	ctx, cancel := context.WithTimeout(context.Background(), ansibleLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ansible-playbook", append([]string{"-vvv", "--diff", "-i", inventory}, words...)...)
	cmd.Dir = filepath.Join("..", "..", "contrib", "ansible")
	cmd.Env = append(os.Environ(), "ANSIBLE_LOCAL_TEMP="+a.dir, "ANSIBLE_NOCOLOR=1", "ANSIBLE_RETRY_FILES_ENABLED=0",
		"HOME="+a.dir, "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	said = played{text: string(out), err: err}
	for _, found := range regexp.MustCompile(`changed=(\d+) `).FindAllStringSubmatch(said.text, -1) {
		n := 0
		_, _ = fmt.Sscan(found[1], &n) // digits, as the pattern says
		said.changed += n
	}
	return said
}

// play is run of a playbook that has to succeed, and to keep secrets.
func (a *playbooks) play(deb string, words ...string) played {
	a.t.Helper()
	said := a.run(a.inventory(deb), words...)
	if said.err != nil {
		a.t.Fatalf("ansible-playbook %v: %v\n%s", words, said.err, program.Tail(said.text, 60))
	}
	for what, secret := range map[string]string{"Ironic's password": ansibleSecret, "the password of a user": ansibleUser,
		"a hash": "$2", "a join token": "trivet1."} {
		if strings.Contains(said.text, secret) {
			a.t.Errorf("ansible-playbook %v shows %s", words, what)
		}
	}
	return said
}
