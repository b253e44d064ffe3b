package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const day = 24 * 3600 // seconds

// well is the health of one of three hosts on which all is well.
func well(i int) Health {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC).Unix()
	h := Health{
		Clock: Clock{Now: now, Asked: true, Synchronised: true, SkewMS: 40, SkewLimitMS: 5000},
		Disk: Disk{Path: "/var/lib/trivet", Size: 100 << 30, Free: 50 << 30, Low: 512 << 20, Floor: 64 << 20, Inodes: 1000,
			InodesFree: 900,
			Ballast:    16 << 20, Peer: true, HeartbeatUS: 300_000, HungUS: 2_000_000, Probe: Writes{10, 2_000, 9_000},
			Log: Writes{200, 2_000, 1_300_000}},
		Limits: Limits{Group: "/system.slice/trivet.service", Memory: 2 << 30, MemoryUsed: 100 << 20, Tasks: 4096,
			TasksUsed: 20, MilliCPU: 2000, CPUWeight: 500, Files: 65536, FilesUsed: 80},
		Services: []Service{{What: "Ironic", Section: "ironic", Version: "1.82"},
			{What: "Keystone", Section: "api.keystone"}},
		Rights: []Rights{{Cluster: "prod"}},
		Certificates: []Certificate{
			{What: "the peer's certificate", NotBefore: now - day, NotAfter: now + 29*day, RenewAt: now + 19*day},
			{What: "the API's certificate", File: "/etc/trivet/api.pem", NotBefore: now - day, NotAfter: now + 300*day},
		},
		Build: Build{Binary: "1.4.0", Log: 5, InUse: 5},
	}
	for j := 1; j <= 3; j++ {
		for _, r := range []Route{{What: "peers", Protocol: "tcp", Address: "192.0.2.%d:7350"},
			{What: "gossip", Protocol: "udp", Address: "192.0.2.%d:7351"}} {
			r.To, r.Address = fmt.Sprintf("h%d", j), fmt.Sprintf(r.Address, j)
			if i != j {
				h.Routes = append(h.Routes, r)
			}
		}
	}
	return h
}

// broken cuts the way from one host to the peers' port of another.
func broken(h []Facts, from, to int) {
	for i, r := range h[from-1].Routes {
		if r.What == "peers" && r.To == fmt.Sprintf("h%d", to) {
			h[from-1].Routes[i].Error = "i/o timeout"
		}
	}
}

func routeFaults() []fault {
	return []fault{
		{"a cut in one direction", func(h []Facts) { broken(h, 3, 2) },
			"error ports h2: h3 does not reach its peers (7350/tcp), h1 does; h2 reaches h3: a firewall here or on h3",
			"ss -lnt 'sport = :7350'"},
		{"a port shut to all", func(h []Facts) { broken(h, 1, 2); broken(h, 3, 2) },
			"error ports h2: no other peer reaches its peers (7350/tcp); h2 reaches h1: i/o timeout", "nft list ruleset"},
	}
}

func diskFaults() []fault {
	return []fault{
		{"full", func(h []Facts) { h[0].Disk.Dropped, h[0].Disk.Ballast = true, 0 },
			"error disk h1: the disk of /var/lib/trivet is full", "df -h /var/lib/trivet"},
		{"below the floor", func(h []Facts) { h[0].Disk.Free = 63 << 20 },
			"error disk h1: the disk of /var/lib/trivet has 63 MiB free, less than 64 MiB", "df -h /var/lib/trivet"},
		{"below the floor of a small disk", func(h []Facts) { h[0].Disk.Free, h[0].Disk.Floor = 500<<10, 500<<10+1 },
			"error disk h1: the disk of /var/lib/trivet has 500 KiB free, less than 501 KiB", "df -h /var/lib/trivet"},
		{"low", func(h []Facts) { h[0].Disk.Free = 500 << 20 },
			"warning disk h1: the disk of /var/lib/trivet has 500 MiB free of 102400 MiB", "df -h /var/lib/trivet"},
		{"no inodes", func(h []Facts) { h[0].Disk.InodesFree = 3 },
			"warning disk h1: the file system of /var/lib/trivet takes only 3 more files", "df -i /var/lib/trivet"},
		{"no ballast", func(h []Facts) { h[0].Disk.Ballast = 0 }, "warning disk h1: there is no ballast in /var/lib/trivet",
			"ballast"},
		{"slow", func(h []Facts) { h[0].Disk.Probe.MedianUS = 80_000 },
			"warning disk h1: its disk takes 80ms for one write (one small file", "iostat -x 1 5"},
		{"too slow", func(h []Facts) { h[0].Disk.Log.MedianUS = 600_000 },
			"error disk h1: its disk takes 600ms for one write (the log, of late): a vote waits for four, longer than the longest election timeout, 600ms",
			"iostat -x 1 5"},
		{"too slow to elect", func(h []Facts) { h[0].Disk.Log.MedianUS = 151_000 },
			"error disk h1: its disk takes 151ms for one write", "iostat -x 1 5"},
		{"hung once", func(h []Facts) { h[0].Disk.Log.MostUS = 2_100_000 },
			"warning disk h1: its disk once took 2.1s for one write (the log, of late); a leader gives up at 2s",
			"iostat -x 1 5"},
	}
}

func hostFaults() []fault {
	return []fault{
		{"skew", func(h []Facts) { h[0].Clock.SkewMS = -6000 }, "error clock h1: its clock is -6s off the other hosts'",
			"chronyc makestep"},
		{"some skew", func(h []Facts) { h[0].Clock.SkewMS = 2600 },
			"warning clock h1: its clock is 2.6s off the other hosts'; at 5s", "chronyc makestep"},
		{"no NTP", func(h []Facts) { h[0].Clock.Synchronised = false },
			"warning clock h1: the kernel says that nothing keeps its clock right", "systemctl enable --now chrony"},
		{"little memory", func(h []Facts) { h[0].Limits.Memory = 128 << 20 },
			"warning limits h1: its peer may have 128 MiB of memory (control group /system.slice/trivet.service); it needs 512 MiB",
			"MemoryMax=2G"},
		{"memory used", func(h []Facts) { h[0].Limits.MemoryUsed = 1900 << 20 },
			"warning limits h1: its peer has 1900 MiB of memory and may have 2048 MiB", "MemoryMax=2G"},
		{"few threads", func(h []Facts) { h[0].Limits.Tasks = 32 }, "warning limits h1: its peer may have 32 of threads",
			"TasksMax=4096"},
		{"little CPU", func(h []Facts) { h[0].Limits.MilliCPU = 100 },
			"warning limits h1: its peer may have 100 thousandths of a core of processor", "CPUQuota=200%"},
		{"no weight of its own", func(h []Facts) { h[0].Limits.CPUWeight = 100 },
			"warning limits h1: its peer's control group has a processor weight of 100, the packaged unit's is 500",
			"--cpu-shares 13100"},
		{"a path that must be there", func(h []Facts) { h[0].Limits.Needs = []string{"/mnt/nas/trivet"} },
			"warning limits h1: systemd does not start its peer while /mnt/nas/trivet is away",
			"ReadWritePaths=-/mnt/nas/trivet"},
		{"few files", func(h []Facts) { h[0].Limits.Files = 1024 },
			"warning limits h1: its peer may have 1024 of open files; it needs 4096", "LimitNOFILE=65536"},
		{"files used", func(h []Facts) { h[0].Limits.FilesUsed = 60000 },
			"warning limits h1: its peer has 60000 of open files", "LimitNOFILE=65536"},
		{"another version", func(h []Facts) { h[2].Build.Binary = "1.3.0" },
			"warning versions h3: it runs trivet 1.3.0, h1 runs 1.4.0", "systemctl restart trivet"},
		{"the upgrade not finalized", func(h []Facts) { h[0].Build.InUse, h[0].Build.RunningFor = 4, 15*86400 },
			"info versions h1: the upgrade is not finalized although all hosts run it for 15 days: version 4 of the log is in use, 5 is known",
			"trivet upgrade finalize"},
		{"the log held back", func(h []Facts) {
			h[0].Build.InUse, h[0].Build.RunningFor, h[2].Build.Log = 4, 15*86400, 4
		},
			"warning versions h1: version 4 of the log is in use although 5 is known: held back by h3", "trivet members"},
		{"legacy beside nft", func(h []Facts) { h[0].Filter.LegacyRules, h[0].Filter.NftRules = true, true },
			"warning filter h1: this host has rules of iptables-legacy and of iptables-nft", "iptables-legacy-save"},
	}
}

func serviceFaults() []fault {
	return []fault{
		{"Ironic away", func(h []Facts) { h[1].Services[0].Error = "401 Unauthorized" },
			"warning services h2: Ironic serves h1, h3 and not this peer: 401 Unauthorized", "systemctl reload trivet"},
		{"ramdisks refused", func(h []Facts) {
			h[1].Services[0].Ramdisks = []Ramdisks{{Option: "ironic.endpoint", URL: "http://i/v1/", Used: true,
				Refusal: "403: denied"}}
		}, "error services h2: ironic.endpoint http://i/v1/ refuses what ramdisks send: 403: denied",
			"# write ironic.ramdisk_endpoint: the URL of an Ironic API with [api] enable_ramdisk_endpoints = True"},
		{"ramdisks refused where they are sent", func(h []Facts) {
			h[1].Services[0].Ramdisks = []Ramdisks{{Option: "ironic.ramdisk_endpoint", Used: true, Refusal: "403: denied"},
				{Option: "ironic.endpoint"}}
		}, "error services h2: ironic.ramdisk_endpoint refuses what ramdisks send: 403: denied",
			"# take ironic.ramdisk_endpoint out: ironic.endpoint takes what ramdisks send"},
		{"ramdisks refused by both", func(h []Facts) {
			h[1].Services[0].Ramdisks = []Ramdisks{{Option: "ironic.ramdisk_endpoint", Used: true, Refusal: "404: not here"},
				{Option: "ironic.endpoint", Refusal: "403: denied"}}
		}, "error services h2: ironic.ramdisk_endpoint refuses what ramdisks send: 404: not here",
			"# ironic.endpoint refuses it too (403: denied)"},
		{"no answer to ramdisks", func(h []Facts) {
			h[1].Services[0].Ramdisks = []Ramdisks{{Option: "ironic.ramdisk_endpoint", Used: true, Error: "connection refused"},
				{Option: "ironic.endpoint", Refusal: "403: denied"}}
		}, "warning services h2: ironic.ramdisk_endpoint cannot be asked whether it takes what ramdisks send: " +
			"connection refused", "grep -w ironic.ramdisk_endpoint"},
		{"another Ironic", func(h []Facts) { h[2].Services[0].Version = "1.72" },
			"warning services h3: Ironic says version 1.72 here, 1.82 on h1", "grep -w ironic"},
		{"a missing right", func(h []Facts) { h[0].Rights[0].Missing = []string{"patch nodes", "delete pods"} },
			"error kubernetes h1: cluster prod does not let this peer: patch nodes, delete pods", "kubectl apply"},
		{"rights not known", func(h []Facts) { h[0].Rights[0].Error = "no route to host" },
			"warning kubernetes h1: cluster prod does not say what this peer may do there: no route to host",
			"trivet failover list"},
		{"ended", func(h []Facts) { h[0].Certificates[0].NotAfter = h[0].Clock.Now - day },
			"error certificates h1: the peer's certificate has ended on 2026-11-21", "trivet cert --help"},
		{"not yet", func(h []Facts) { h[0].Certificates[0].NotBefore = h[0].Clock.Now + day },
			"error certificates h1: the peer's certificate begins on 2026-11-23", "trivet cert --help"},
		{"not renewed", func(h []Facts) { h[0].Certificates[0].RenewAt = h[0].Clock.Now - 40*day },
			"warning certificates h1: the peer's certificate ends on 2026-12-21 and should have been renewed", "journalctl"},
		{"ends soon", func(h []Facts) { h[0].Certificates[1].NotAfter = h[0].Clock.Now + 20*day },
			"warning certificates h1: the API's certificate ends on 2026-12-12 and is not renewed automatically",
			"/etc/trivet/api.pem"},
		{"unreadable", func(h []Facts) { h[0].Certificates[1].Error = "no such file" },
			"error certificates h1: the API's certificate cannot be used: no such file", "/etc/trivet/api.pem"},
	}
}

// TestACutToWhomIsAsked: the host that asks does not reach one that another does.
func TestACutToWhomIsAsked(t *testing.T) {
	h := healthy()
	h[1] = Facts{Peer: "h2", Error: "i/o timeout"}
	broken(h, 1, 2)
	if findings := judge(t, h); len(findings) != 2 ||
		!strings.HasPrefix(findings[1].Text, "h1 does not reach its peers (7350/tcp), h3 does: a firewall") {
		t.Errorf("%+v", findings)
	}
	broken(h, 3, 2)
	if findings := judge(t, h); len(findings) != 1 || findings[0].Check != checkPeers {
		t.Errorf("of a peer that is down: %+v", findings)
	}
}

// TestHintFindsWhatKeepsPeersApart: the command of hints about peers finds one that is down and each cut.
func TestHintFindsWhatKeepsPeersApart(t *testing.T) {
	words := strings.Fields(strings.Trim(AskPeers, "'"))
	var checks []string
	for i, w := range words {
		if w == "--check" {
			checks = append(checks, words[i+1])
		}
	}
	for name, plant := range map[string]func(h []Facts){
		"cut in one direction": func(h []Facts) { broken(h, 1, 2) },
		"cut in both":          func(h []Facts) { broken(h, 1, 2); broken(h, 2, 1) },
		"shut to all":          func(h []Facts) { broken(h, 1, 2); broken(h, 3, 2) },
		"silent": func(h []Facts) {
			h[1] = Facts{Peer: "h2", Error: "i/o timeout"}
			broken(h, 1, 2)
			broken(h, 3, 2)
		},
		"silent to one": func(h []Facts) { h[1] = Facts{Peer: "h2", Error: "i/o timeout"}; broken(h, 1, 2) },
		"down":          func(h []Facts) { h[1].Offline = true },
	} {
		h := healthy()
		plant(h)
		found := judge(t, h, checks...)
		if len(found) == 0 || found[0].Severity != Error || found[0].Peer != "h2" {
			t.Errorf("peers-hint: %s: %s finds %+v", name, AskPeers, found)
			continue
		}
		start := strings.Contains(found[0].Advice(), "systemctl")
		if found[0].Check == checkPeers && start == (name == "silent to one") {
			t.Errorf("peers-hint: %s: the remedy is %q", name, found[0].Advice())
		}
	}
}

// TestIronicIsAwayFromAll: then it is an error, and one finding of all hosts.
func TestIronicIsAwayFromAll(t *testing.T) {
	hosts := healthy()
	for i := range hosts {
		hosts[i].Services[0].Error = "connection refused"
	}
	findings := judge(t, hosts)
	if len(findings) != 1 || len(findings[0].Hosts()) != 3 || findings[0].Severity != Error ||
		!strings.Contains(findings[0].Text, "Ironic answers no peer: connection refused") {
		t.Errorf("%+v", findings)
	}
}

// TestAHostWithoutAPeer knows neither the log nor whom a peer reaches.
func TestAHostWithoutAPeer(t *testing.T) {
	h := healthy()[:1]
	h[0].Offline = true
	h[0].Disk = Disk{Path: "/var/lib/trivet", Size: 100 << 30, Free: 50 << 30}
	h[0].Routes, h[0].Services, h[0].Build, h[0].Limits, h[0].Rights = nil, nil, Build{}, Limits{}, nil
	h[0].Clock.SkewLimitMS = 0
	if findings := judge(t, h); len(findings) != 1 || findings[0].Check != checkPeers {
		t.Errorf("%+v", findings)
	}
}

// A public API of Ironic that refuses ramdisks is no fault where they have an endpoint of their
// own, and an Ironic that is away is told once.
func TestRefusedRamdisksThatAreNoFault(t *testing.T) {
	for name, s := range map[string]Service{
		"apart": {What: "Ironic", Ramdisks: []Ramdisks{{Option: "ironic.ramdisk_endpoint", Used: true},
			{Option: "ironic.endpoint", Refusal: "403: denied"}}},
		"away": {What: "Ironic", Error: "refused", Ramdisks: []Ramdisks{{Option: "ironic.endpoint", Used: true,
			Error: "refused"}}},
	} {
		if found := (Facts{Peer: "h1"}).judgeRamdisks(s); len(found) > 0 {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
