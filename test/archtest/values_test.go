package archtest

import (
	"regexp"
	"strings"
	"testing"
)

// values are what docs/design.md says of constants: the words on the page and the
// declarations in the source. A changed constant fails here until the page is changed too.
var values = []struct{ words, constants string }{
	{"which is 3", "fsm.Version = 3"},
	{"ttl 10 s, renewed every 3 s, margin 3 s",
		"fsm/membership.SessionTTL = 10 * time.Second; cluster.renewEvery = 3 * time.Second; " +
			"cluster.workMargin = 3 * time.Second"},
	{"waits 7 s for a leader, one attempt 3 s",
		"cluster.leaderHold = 7 * time.Second; cluster.tryLimit = 3 * time.Second"},
	{"probe each other every 400 ms", "cluster.ContactEvery = 400 * time.Millisecond"},
	{"at most 1.5 s behind", "cluster.StaleAfter = 1500 * time.Millisecond"},
	{"asks each former member every 2 s", "cluster.formerEvery = 2 * time.Second"},
	{"caught up for 2 s", "cluster.stableFor = 2 * time.Second"},
	{"8,192 commands in flight", "raftstore.maxInFlight = 8192"},
	{"512 entries per request", "raftstore.maxAppendEntries = 512"},
	{"128 cached", "raftstore.logCacheEntries = 128"},
	{"1,024 trailing", "raftstore.trailingLogs = 1024"},
	{"probe every 1 s, limit 2 s, exit after 15 s",
		"raftstore/leader.probeEvery = time.Second; raftstore/leader.StuckLimit = 15 * time.Second"},
	{"not stopped after 2 s", "raftstore/leader.StopLimit = 2 * time.Second"},
	{"establish itself within 10 s", "raftstore/leader.EstablishLimit = 10 * time.Second"},
	{"three candidates, 1.5 s each",
		"raftstore/leader.transferTries = 3; raftstore/leader.transferLimit = 1500 * time.Millisecond"},
	{"stand aside 30 s after a disk failure", "raftstore/leader.refuseAfterDisk = 30 * time.Second"},
	{"clock skew 5 s", "raftstore/leader.MaxSkew = 5 * time.Second"},
	{"after 3 s without any leader", "raftstore/leader.leaderlessLimit = 3 * time.Second"},
	{"2 s for maintenance and observers", "raftstore/leader.passLimit = 2 * time.Second"},
	{"yields for 15 s", "raftstore/leader.yieldFor = 15 * time.Second"},
	{"a fifth, at least 250 ms", "firewall.margin = 250 * time.Millisecond; firewall.slewShare = 5"},
	{"life 1 s, renewed 300 ms, proof 200 ms",
		"firewall.addressLife = time.Second; firewall.addressEvery = 300 * time.Millisecond; " +
			"firewall.freshAddress = 200 * time.Millisecond"},
	{"within 25 s", "inspector/accept.answerLimit = 25 * time.Second"},
	{"at most 1 s old", "inspector/work.freshFor = time.Second"},
	{"hook 5 min", "inspector/work.HookLimit = 5 * time.Minute"},
	{"the same for 24 h", "fsm/nodesync.SuspectFor = 24 * time.Hour"},
	{"a fifth of the known nodes", "fsm/nodesync.SuspectShare = 5"},
	{"and more than 10", "fsm/nodesync.SuspectCount = 10"},
	{"queue 10,000; attempts 3", "fsm/introspection.MaxQueue = 10_000; fsm/introspection.MaxAttempts = 3"},
	{"callbacks of a node 16, 8 MiB", "fsm/introspection.MaxOfNode = 16; fsm/introspection.MaxBytesOfNode = 8 << 20"},
	{"1,000 places of the queue are kept for time-outs", "fsm/introspection.ReservedQueue = 1000"},
	{"request results 200,000, 10 min", "fsm.MaxRequests = 200_000; fsm.Retention = 10 * time.Minute"},
	{"2 MiB for a compressed document", "fsm/blobs.MaxBlob = 2 << 20"},
	{"8 MiB before compression", "fsm/blobs.MaxDocument = 8 << 20"},
	{"leases 10,000; values 64 KiB each, 16 MiB together",
		"fsm/leases.MaxLeases = 10_000; fsm/leases.MaxValue = 64 << 10; fsm/leases.MaxValueBytes = 16 << 20"},
	{"members 64", "fsm/membership.MaxMembers = 64"},
	{"102,400 events", "fsm/eventring.MaxEvents = 1_600 * perSegment; fsm/eventring.perSegment = 64"},
	{"2^28", "fsm.unseenEntries = 1 << 28"},
	{"times 1024", "fsm.tokensPerMilli = 1 << 10"},
	{"2^53", "fsm.latestToken = 1 << 53"},
	{"up to 50 ms for others unless 64", "lease.renewalsGather = 50 * time.Millisecond; lease.renewalsEnough = 64"},
	{"(50 pods, 5 s)", "failover.maxBatch = 50; failover.batchLife = 5 * time.Second"},
	{"proves leadership (2 s)", "failover.proofLife = 2 * time.Second"},
	{"two readings at least 1 s apart", "failover.confirmInterval = time.Second"},
	{"when the log holds 64 MiB", "app.snapshotBytes = 64 << 20"},
	{"hears of no leader for 3 s", "app.orphanWait = 3 * time.Second"},
	{"peer 30 days, operator 90 days, CA 10 years",
		"cluster/pki.PeerTTL = 30 * day; cluster/pki.OperatorTTL = 90 * day; cluster/pki.CATTL = 10 * 365 * day"},
}

// TestDesignHasTheValues compares docs/design.md with the constants it speaks of.
func TestDesignHasTheValues(t *testing.T) {
	tree := wholeTree(t)
	page := strings.Join(strings.Fields(tree.texts["docs/design.md"].Source), " ")
	sources := make(map[string]string)
	for _, file := range tree.Files {
		if !file.test() {
			sources[file.Package()] += file.Source
		}
	}
	for _, v := range values {
		if !strings.Contains(page, v.words) {
			t.Errorf("docs/design.md does not say %q, the value of %s", v.words, v.constants)
		}
		for constant := range strings.SplitSeq(v.constants, "; ") {
			name, expr, _ := strings.Cut(constant, " = ")
			pkg, name, _ := strings.Cut(name, ".")
			declared := regexp.MustCompile(`(?m)^(?:const)?\s+` + name + `(?: [\w.]+)? += +(.*?)(?: +//.*)?$`)
			if found := declared.FindStringSubmatch(sources[pkg]); found == nil || found[1] != expr {
				t.Errorf("%s was true of %q; docs/design.md says %q, and the source %q", constant, expr, v.words, found)
			}
		}
	}
}
