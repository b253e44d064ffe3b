//go:build e2e

package labtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// The units and the directory that kolla-ansible makes of ironic-dnsmasq and ironic-pxe-filter.
const (
	kollaDHCP   = "kolla-ironic_dnsmasq-container.service"
	kollaFilter = "kolla-ironic_pxe_filter-container.service"
	kollaHosts  = "/var/lib/docker/volumes/ironic_dhcp_hosts/_data"
)

// recipes are three hosts that another project installed, and the recipe that puts Trivet there.
type recipes struct {
	*playbooks
	recipe string // kolla or bifrost
	deb    string
}

// TestRecipes has contrib/ansible put Trivet into the places of kolla-ansible's and of bifrost's DHCP
// servers, repeat that, and put these back. Real are Trivet, dnsmasq, systemd and Ansible; a unit of
// the containers' name stands for each container.
func TestRecipes(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t, "ip", "mmdebstrap", "systemd-nspawn", "nsenter", "dpkg-deb", "xz", "ansible-playbook")
	deb := buildPackage(t)
	ironic := openstack.StartIronic(t, 100)
	p := newPackaged(t, ironic.Addr)
	p.password = ansibleUser
	r := &recipes{playbooks: newPlaybooks(t, p), deb: deb}
	r.kolla()
	r.bifrost()
}

// kolla goes there and back on three hosts, by one boolean.
func (r *recipes) kolla() {
	t, hosts := r.t, r.lab.hosts
	r.recipe = "kolla"
	for _, h := range hosts {
		h.Must("systemctl", "disable", "--now", "dnsmasq")
		h.unit(kollaDHCP, "/usr/sbin/dnsmasq --no-daemon --port=0 --interface="+string(PXE)+
			" --bind-interfaces --dhcp-range=10.212.0.100,10.212.0.219,10m --dhcp-hostsdir="+kollaHosts)
		h.unit(kollaFilter, `/bin/sh -c "sleep 2; echo '*:*:*:*:*:*,ignore' > `+kollaHosts+
			`/unknown_hosts_filter; exec sleep infinity"`)
		h.Must("mkdir", "-p", kollaHosts)
		h.Must("systemctl", "enable", "--now", kollaFilter, kollaDHCP)
	}
	r.refused("the next run of kolla-ansible would start it next to Trivet", "enable_ironic_dnsmasq: true")
	r.refused("Trivet serves TFTP where machines boot", "ironic_dnsmasq_interface: "+string(Site))
	r.refused("is an address of keepalived's", "trivet_floating_ip: "+r.lab.net.Gateway)
	r.units("active", kollaDHCP, kollaFilter)

	// What has UDP 69 on one host keeps Trivet's server from starting: the host has its old one again.
	blocked := hosts[1]
	blocked.Must("systemd-run", "--unit=blocker", "python3", "-c",
		"import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"+
			"s.bind(('"+blocked.at.pxe()+"', 69))\ntime.sleep(3600)")
	r.refused("serves DHCP by kolla's container again")
	for _, unit := range []string{kollaDHCP, kollaFilter} {
		if state := blocked.Property(unit, "ActiveState"); state != "active" {
			t.Errorf("%s on the host where Trivet's DHCP server could not start is %s", unit, state)
		}
	}
	blocked.Must("systemctl", "stop", "blocker")

	if said := r.way("enable_trivet: true"); said.changed == 0 {
		t.Errorf("the way to Trivet changes nothing:\n%s", said.text)
	}
	r.lab.voters(hosts...)
	r.lab.answers()
	r.units("inactive", kollaDHCP, kollaFilter)
	r.units("active", "dnsmasq")
	for i, h := range hosts { // a part of kolla's range for each host
		conf := h.Must("cat", "/etc/dnsmasq.d/trivet.conf", "/srv/tftp/trivet.ipxe")
		for _, want := range []string{
			fmt.Sprintf("10.212.0.%d,10.212.0.%d,", 100+40*i, 139+40*i),
			"kernel --timeout 30000 http://" + h.at.Site + ":8089/ironic-agent.kernel ", "ipa-collect-lldp=1",
			"ipa-inspection-callback-url=http://" + r.lab.floating + ":5055/v1/continue_inspection,"} {
			if !strings.Contains(conf, want) {
				t.Errorf("%s serves no %q:\n%s", h.name, want, conf)
			}
		}
	}
	r.again("enable_trivet: true")

	r.way("enable_trivet: false")
	r.gone(hosts)
	r.units("active", kollaDHCP, kollaFilter)
	for _, h := range hosts {
		const since = "ActiveEnterTimestampMonotonic"
		server, filter := h.Property(kollaDHCP, since), h.Property(kollaFilter, since)
		if len(server) < len(filter) || len(server) == len(filter) && server <= filter {
			t.Errorf("%s: the DHCP server started at %s, its filter at %s", h.name, server, filter)
		}
	}
	r.again("enable_trivet: false")
	r.stop(kollaDHCP, kollaFilter)
}

// bifrost is there and back, on two hosts next to bifrost's.
func (r *recipes) bifrost() {
	t, target := r.t, r.lab.hosts[2]
	r.recipe = "bifrost"
	served := "port=0\nlisten-address=" + target.at.pxe() + "\nbind-interfaces\ndhcp-range=10.212.0.200,10.212.0.250,12h\n"
	testenv.Must(t, os.WriteFile(filepath.Join(target.Dir, "etc", "dnsmasq.conf"), []byte(served), 0o644))
	target.Must("systemctl", "enable", "--now", "dnsmasq")
	state := func(want string) {
		t.Helper()
		if got := target.Property("dnsmasq", "ActiveState"); got != want {
			t.Errorf("bifrost's dnsmasq is %s, want %s", got, want)
		}
	}
	r.refused("would start its DHCP server next to Trivet", "enable_dhcp: true")
	r.refused("would get no address any more", "default_boot_interface: ipxe")
	state("active")

	r.way("enable_trivet: true")
	two := r.lab.hosts[:2]
	r.lab.voters(two...)
	r.lab.answers()
	state("inactive")
	for _, h := range two {
		script, want := h.Must("cat", "/srv/tftp/trivet.ipxe"), "http://"+target.at.Site+":8080/ipa.kernel "
		if !strings.Contains(script, want) || h.Property("dnsmasq", "ActiveState") != "active" {
			t.Errorf("%s does not serve %q:\n%s", h.name, want, script)
		}
	}
	r.again("enable_trivet: true")

	r.way("enable_trivet: false")
	r.gone(two)
	state("active")
	r.again("enable_trivet: false")
}

// unit makes a unit that runs a command.
func (h *packagedHost) unit(name, command string) {
	h.t.Helper()
	text := "[Service]\nExecStart=" + command + "\n[Install]\nWantedBy=multi-user.target\n"
	testenv.Must(h.t, os.WriteFile(filepath.Join(h.Dir, "etc/systemd/system", name), []byte(text), 0o644))
	h.Must("systemctl", "daemon-reload")
}

// units checks units on all hosts: whether they run, and whether they do after a reboot.
func (r *recipes) units(state string, names ...string) {
	r.t.Helper()
	for _, h := range r.lab.hosts {
		for _, name := range names {
			enabled := h.Property(name, "UnitFileState") == "enabled"
			if got := h.Property(name, "ActiveState"); got != state || enabled != (state == "active") {
				r.t.Errorf("%s: %s is %s, and enabled: %v; want %s", h.name, name, got, enabled, state)
			}
		}
	}
}

func (r *recipes) stop(names ...string) {
	for _, h := range r.lab.hosts {
		h.Must(append([]string{"systemctl", "disable", "--now"}, names...)...)
	}
}

// gone checks that nothing of Trivet's is left that answers or filters.
func (r *recipes) gone(hosts []*packagedHost) {
	r.t.Helper()
	for _, h := range hosts {
		left := h.Must("sh", "-c", "nft list tables | grep trivet; ls -d /usr/bin/trivet /etc/trivet /var/lib/trivet "+
			"/etc/dnsmasq.d/trivet.conf 2>/dev/null; ip address | grep -F "+r.lab.floating+"/; true")
		if left != "" {
			r.t.Errorf("%s has of Trivet: %s", h.name, left)
		}
	}
}

// try runs the recipe with the project's variables; lines add to them.
func (r *recipes) try(lines ...string) played {
	r.t.Helper()
	vars := r.vars()
	for _, line := range lines { // the last one of a name counts; YAML allows one of each
		name, _, _ := strings.Cut(line, ":")
		var kept []string
		for old := range strings.Lines(vars) {
			if !strings.HasPrefix(old, name+":") {
				kept = append(kept, old)
			}
		}
		vars = strings.Join(kept, "") + line + "\n"
	}
	said := r.run(r.inventoryOf(), r.recipe+".yml", "-i", filepath.Join(r.recipe, "inventory.yml"),
		"-e", "@"+r.write("vars.yml", 0o600, vars))
	for what, secret := range map[string]string{
		"the password of a user": ansibleUser, "a hash": "$2", "a join token": "trivet1."} {
		if strings.Contains(said.text, secret) {
			r.t.Errorf("%s.yml shows %s", r.recipe, what)
		}
	}
	return said
}

// way is try that has to succeed.
func (r *recipes) way(lines ...string) played {
	r.t.Helper()
	said := r.try(lines...)
	if said.err != nil {
		r.t.Fatalf("%s.yml with %q: %v\n%s", r.recipe, lines, said.err, program.Tail(said.text, 60))
	}
	return said
}

// again repeats a way, which changes nothing.
func (r *recipes) again(lines ...string) {
	r.t.Helper()
	if said := r.way(lines...); said.changed != 0 {
		r.t.Errorf("%s.yml with %q, repeated, changes %d things:\n%s", r.recipe, lines, said.changed, said.text)
	}
}

// refused is try that has to fail with a sentence.
func (r *recipes) refused(sentence string, lines ...string) {
	r.t.Helper()
	said := r.try(lines...)
	if said.err == nil {
		said.err = errors.New("it succeeds")
	}
	if !strings.Contains(said.text, sentence) {
		r.t.Errorf("%s.yml with %q does not say %q: %v\n%s", r.recipe, lines, sentence, said.err, program.Tail(said.text, 40))
	}
}

// vars are the variables of the project and what the recipe's documents add to them.
func (r *recipes) vars() string {
	r.t.Helper()
	added := "globals.yml"
	common := "trivet_package: " + r.deb + "\ntrivet_floating_ip: " + r.lab.floating +
		"\ntrivet_api_users: ['admin:" + r.hash + "']\n"
	own := `kolla_internal_vip_address: ` + r.lab.net.Gateway + `
network_interface: ` + string(Site) + `
ironic_dnsmasq_interface: ` + string(PXE) + `
ironic_internal_endpoint: http://` + r.ironic + `
ironic_dnsmasq_dhcp_ranges: [{range: "10.212.0.100,10.212.0.219"}]
ironic_kernel_cmdline_extras: [ipa-collect-lldp=1]
enable_keystone: false
trivet_site_config:
  api: {auth_strategy: http_basic, http_basic_auth_user_file: /etc/trivet/htpasswd}
  floating_ip: {interface: ` + string(Site) + `}
`
	if r.recipe == "bifrost" {
		added = "vars.yml"
		own = `network_interface: ` + string(Site) + `
ironic_api_url: http://` + r.ironic + `
noauth_mode: true
trivet_interface: ` + string(PXE) + `
trivet_bifrost_ip: ` + r.lab.hosts[2].at.Site + `
trivet_site_config: {floating_ip: {interface: ` + string(Site) + `}}
`
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "contrib", "ansible", r.recipe, added))
	testenv.Must(r.t, err)
	return string(text) + common + own
}

// inventoryOf writes the inventory of the project.
func (r *recipes) inventoryOf() string {
	r.t.Helper()
	lines := "all:\n  vars: {ansible_connection: ssh, ansible_ssh_executable: " + filepath.Join(r.dir, "ssh") +
		", ansible_ssh_transfer_method: piped, ansible_pipelining: true, ansible_user: root, ansible_become: false, " +
		"ansible_python_interpreter: /usr/bin/python3}\n"
	var names []string
	for _, h := range r.lab.hosts {
		// The container's /sys shows other interfaces, so that Ansible finds out no addresses.
		names = append(names, fmt.Sprintf("%s: {ansible_host: %[1]s, trivet_kolla_api_address: %[2]s, "+
			"trivet_kolla_http_address: %[2]s, trivet_address: \"%[2]s:7350\"}", h.name, h.at.Site))
	}
	if r.recipe == "bifrost" {
		return r.write("inventory.yml", 0o600, lines+"target: {hosts: {"+names[2]+"}}\ntrivet: {hosts: {"+
			strings.Join(names[:2], ", ")+"}}\n")
	}
	for _, group := range []string{"ironic-dnsmasq", "ironic-tftp", "ironic-http"} {
		lines += group + ": {hosts: {" + strings.Join(names, ", ") + "}}\n"
	}
	return r.write("inventory.yml", 0o600, lines)
}
