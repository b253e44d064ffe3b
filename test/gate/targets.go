package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// target is one part of tier 2: what a builder runs for what a change touches.
type target struct {
	name  string
	about string
	paths []string // prefixes of files; a change of one touches the target
	needs []string // programs, keys of debian
	root  bool
	steps []step
}

// step is one command of a target: a run of go test with the tag e2e, or a command.
type step struct {
	tests   []string // arguments of go test; its events are followed
	command []string // judged by its exit code
}

// targetLimit ends a target that hangs. On two quiet cores each takes 15 minutes at most.
const targetLimit = 60 * time.Minute

// every names the paths whose change touches all that runs whole peers.
var every = []string{"go.mod", "app/", "raftstore/", "fsm/", "cluster/"}

// targets is the table of tier 2, in the order in which they run.
func targets() []target {
	return append([]target{
		{
			name:  "e2e-process",
			about: "programs as processes: scripts of the command line, lease run, attacks, power cuts, quick start, demo",
			paths: append([]string{"cli/", "client/", "lease/", "test/attacktest/", "test/powercut/", "test/sandbox/",
				"test/simtest/", "test/mutants/", "test/stress/", "test/gate/", "README.md", "internal/httpserver/", "api/"},
				every...),
			needs: []string{"curl", "openstack-inventory", "iptables", "dnsmasq", "tmux", "strace"},
			steps: []step{
				{tests: []string{"-parallel", "4", "./cli/...", "./lease/...", "./firewall/iptables/...", "./failover/fence",
					"./app", "./firewall/pxe", "./raftstore/host", "./test/mutants", "./test/proof", "./test/stress",
					"./test/gate"}},
				{tests: []string{"-run", "^TestSecondTransferWedgesRaft$", "./test/simtest"}},
				{tests: []string{"./test/attacktest"}},
				{tests: []string{"./test/powercut"}},
				{command: []string{"make", "demo"}},
				{command: []string{"make", "quickstart"}},
			},
		},
		{
			name: "e2e-kernel", about: "the packet filter, the floating IP and raw sockets in network namespaces",
			paths: []string{"go.mod", "firewall/", "test/netns/"},
			needs: []string{"ip", "nft", "iptables-legacy", "dnsmasq"}, root: true,
			steps: []step{{tests: []string{"./firewall/...", "./test/netns"}}},
		},
		lab("e2e-gate", "hosts in namespaces: hand-over, contact, elector, drill", 2,
			[]string{"firewall/", "lease/elector/"}, "nft", "iptables-legacy", "dhcpd"),
		{
			name: "e2e-peers", about: "the rest of the lab: kill, full disk, leave, join, recover, restore", root: true,
			paths: labPaths("cli/", "client/", "config/", "api/"), needs: append([]string{"haproxy"}, labNeeds...),
			steps: []step{{tests: []string{"-parallel", "4", "-skip", strings.Join(slices.Sorted(maps.Values(labTests)), "|"),
				"./test/labtest"}}},
		},
		{
			name: "e2e-chaos", about: "histories of clients, and a load, while real peers are struck", root: true,
			paths: labPaths("test/chaos/", "test/history/", "api/", "lease/", "inspector/"),
			needs: append([]string{"nft", "fsfreeze"}, labNeeds...), steps: []step{{tests: []string{"./test/chaos"}}},
		},
		lab("e2e-ironic", "Ironic, its clients and the original ironic-inspector", 4,
			[]string{"inspector/", "api/", "client/", "internal/keystone/", "internal/servicecreds/"}, "nft", "iptables-legacy",
			"openstack-inventory"),
		lab("e2e-ironic39", "Ironic 39 inspects, and ramdisks call with the agent's own code", 1,
			[]string{"inspector/ironic/", "inspector/relay/", "fsm/relays/"}, "nft", "unshare", "chroot"),
		lab(kubeBuild, "build the Kubernetes control plane of the lab", 1, nil),
		lab("e2e-kube", "a Kubernetes control plane: failover, admission, leases", 4,
			[]string{"failover/", "haconfig/", "lease/", "client/", "packaging/chart/", "packaging/container/"},
			"fence_ipmilan", "ipmi_sim", "ipmitool"),
		{
			name: "e2e-page", about: "the page in a real browser",
			paths: []string{"go.mod", "api/", "test/uitest/", "test/chromium/", "test/sandbox/"},
			needs: []string{"chromium", "npm", "tmux"}, root: true,
			steps: []step{{tests: []string{"./test/uitest"}}},
		},
		{
			name: "e2e-package", about: "packages on Debian hosts: install, pages of the documentation, likely mistakes",
			paths: []string{"go.mod", "packaging/", "contrib/ansible/", "docs/", "README.md", "cli/", "config/", "doctor/",
				"test/labtest/"},
			needs: append([]string{"systemd-analyze", "systemd-nspawn", "mmdebstrap", "rpm", "lintian", "rpmlint", "promtool",
				"dpkg-parsechangelog", "ansible-playbook", "xz"}, labNeeds...), root: true,
			steps: []step{
				{tests: []string{"./packaging/..."}},
				{tests: []string{"-parallel", "4", "-run", labTests["e2e-package"], "./test/labtest"}},
			},
		},
		{
			name: "tooz", about: "Tooz's own tests and a real service on the driver, peers killed; the exporter to NetBox",
			paths: append([]string{"contrib/tooz-trivet/", "contrib/netbox-trivet/", "lease/", "api/"}, every...),
			needs: []string{"python3-tooz", "python3-testtools", "python3-fixtures", "ironic-inspector"},
			steps: []step{{command: []string{"make", "netbox"}}, {command: []string{"make", "tooz"}}},
		},
	}, longTargets()...)
}

// longTargets are those that judge more than the tests of one folder.
func longTargets() []target {
	return []target{
		{
			name: "mutants", about: "rows of the table of mutants whose file or package changed",
			paths: nil, // the rows that a change touches are chosen by the command itself
			steps: []step{{command: []string{"go", "run", "./test/mutants", "-changed", "BASE"}}},
		},
		{
			name: "sim", about: "the simulation at length, a part of it under the race detector",
			paths: append([]string{"test/simtest/", "test/history/", "test/hostkernel/", "failover/", "lease/", "client/",
				"inspector/", "firewall/", "api/events/"}, every...),
			steps: []step{{command: []string{"make", "sim", "RETURNS=300"}}}, // all 10,000 minutes take hours
		},
		{
			name: "bench", about: "each area of the bench in short form: that it runs, not how fast",
			paths: []string{"go.mod", "test/bench/", "test/labtest/", "test/sandbox/"},
			needs: append([]string{"nft", "iptables-legacy", "dhcpd", "ironic-inspector"}, labNeeds...), root: true,
			steps: []step{{command: []string{"make", "bench", "SHORT=1"}}},
		},
		{
			name: "stress", about: "the tests of what changed, again and again on a busy machine",
			paths: nil,
			steps: []step{{command: []string{"make", "stress", "PKG=CHANGED", "COUNT=20", "WITHIN=10m"}}},
		},
	}
}

// lab is a target of test/labtest: the tests that labTests has for it.
func lab(name, about string, parallel int, paths []string, needs ...string) target {
	return target{
		name: name, about: about, root: true, paths: labPaths(paths...), needs: append(needs, labNeeds...),
		steps: []step{{tests: []string{"-parallel", strconv.Itoa(parallel), "-run", labTests[name], "./test/labtest"}}},
	}
}

// labPaths are the paths whose change touches a target of the lab.
func labPaths(more ...string) []string {
	return slices.Concat([]string{"test/labtest/", "test/netns/", "test/sandbox/"}, more, every)
}

// affected returns the targets that changed files touch. A target without paths is
// touched by every change of Go source.
func affected(changed []string) (touched []target) {
	source := slices.ContainsFunc(changed, func(f string) bool { return strings.HasSuffix(f, ".go") })
	for _, t := range targets() {
		if t.paths == nil && source || touches(changed, t.paths) {
			touched = append(touched, t)
		}
	}
	return touched
}

// touches reports whether one of the files begins with one of the prefixes.
func touches(files, prefixes []string) bool {
	return slices.ContainsFunc(files, func(file string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(file, p) })
	})
}

func printAffected(ctx context.Context, base string) int {
	changed, err := changedFiles(ctx, base)
	if err != nil {
		fmt.Println("error:", err)
		return exitEnvironment
	}
	for _, t := range affected(changed) {
		fmt.Printf("%-12s %s\n", t.name, t.about)
	}
	return exitPassed
}

// labTests divides the tests of test/labtest by name; what no pattern matches is of
// e2e-peers.
var labTests = map[string]string{
	"e2e-gate": `^Test(Gate.*|StoppedBetweenProofAndWrite|RestoreWhileOldPeersRun|Drill|Elector|Contact|HostsThemselves|CutFollowerIsBackSoon|` +
		`DoorIsShutOffline|FiltersOfAllPeersAreTold|WithoutIPv4|BatchGetsAddresses|MachinesAreOfferedTheirBootFile|DoctorFindsWhatIsPlanted|LeaseRun|Overlaps)$`,
	"e2e-ironic":   `^Test(Ironic|IronicInTrouble|IronicItself|TakeOver|TakeOverServers|FenceIronic|Keystone)$`,
	"e2e-ironic39": `^Test(Ironic39|Ironic39QuickStart|Ironic39ServesRamdisksElsewhere|Ironic39Lists|Ironic39Filter)$`,
	"e2e-kube":     `^Test(Kube|KubeDays|KubeMixed|KubeStarved|KubernetesComparesTokens|HAConfig|HAConfigOfTwoClusters|HAConfigPolicies|ElectorMirror|Chart|ChartRenders|FenceIPMI|FenceDummy)$`,
	"e2e-package":  `^Test(ThreePackagedHosts|UpgradeOfPackages|Documents|TenMistakes|Ansible|Recipes)$`,
	kubeBuild:      `^TestControlPlaneIsBuilt$`,
}

// kubeBuild is the target that builds what e2e-kube runs.
const kubeBuild = "kube-build"

// labNeeds are the programs that hosts in namespaces need.
var labNeeds = []string{"ip", "mkfs.ext4", "fsfreeze", "losetup", "dnsmasq", "curl"}
