package archtest

import (
	"regexp"
	"strings"
	"testing"
)

// values are what docs/design.md says of constants: the expression in the source and
// the words on the page. A changed constant fails here until the page is changed too.
var values = []struct{ pkg, name, expr, words string }{
	{"fsm", "Version", "3", "which is 3"},
	{"fsm/membership", "SessionTTL", "10 * time.Second", "ttl 10 s, renewed every 3 s, margin 3 s"},
	{"cluster", "renewEvery", "3 * time.Second", "ttl 10 s, renewed every 3 s, margin 3 s"},
	{"cluster", "workMargin", "3 * time.Second", "ttl 10 s, renewed every 3 s, margin 3 s"},
	{"cluster", "leaderHold", "7 * time.Second", "waits 7 s for a leader, one attempt 3 s"},
	{"cluster", "tryLimit", "3 * time.Second", "waits 7 s for a leader, one attempt 3 s"},
	{"cluster", "ContactEvery", "400 * time.Millisecond", "probe each other every 400 ms"},
	{"cluster", "StaleAfter", "1500 * time.Millisecond", "at most 1.5 s behind"},
	{"cluster", "formerEvery", "2 * time.Second", "asks each former member every 2 s"},
	{"cluster", "stableFor", "2 * time.Second", "caught up for 2 s"},
	{"raftstore", "maxInFlight", "8192", "8,192 commands in flight"},
	{"raftstore", "maxAppendEntries", "512", "512 entries per request"},
	{"raftstore", "logCacheEntries", "128", "128 cached"},
	{"raftstore", "trailingLogs", "1024", "1,024 trailing"},
	{"raftstore/leader", "probeEvery", "time.Second", "probe every 1 s, limit 2 s, exit after 15 s"},
	{"raftstore/leader", "StuckLimit", "15 * time.Second", "probe every 1 s, limit 2 s, exit after 15 s"},
	{"raftstore/leader", "StopLimit", "2 * time.Second", "not stopped after 2 s"},
	{"raftstore/leader", "EstablishLimit", "10 * time.Second", "establish itself within 10 s"},
	{"raftstore/leader", "transferTries", "3", "three candidates, 1.5 s each"},
	{"raftstore/leader", "transferLimit", "1500 * time.Millisecond", "three candidates, 1.5 s each"},
	{"raftstore/leader", "refuseAfterDisk", "30 * time.Second", "stand aside 30 s after a disk failure"},
	{"raftstore/leader", "MaxSkew", "5 * time.Second", "clock skew 5 s"},
	{"raftstore/leader", "leaderlessLimit", "3 * time.Second", "after 3 s without any leader"},
	{"raftstore/leader", "passLimit", "2 * time.Second", "2 s for maintenance and observers"},
	{"raftstore/leader", "yieldFor", "15 * time.Second", "yields for 15 s"},
	{"firewall", "margin", "250 * time.Millisecond", "a fifth, at least 250 ms"},
	{"firewall", "slewShare", "5", "a fifth, at least 250 ms"},
	{"firewall", "addressLife", "time.Second", "life 1 s, renewed 300 ms, proof 200 ms"},
	{"firewall", "addressEvery", "300 * time.Millisecond", "life 1 s, renewed 300 ms, proof 200 ms"},
	{"firewall", "freshAddress", "200 * time.Millisecond", "life 1 s, renewed 300 ms, proof 200 ms"},
	{"inspector/accept", "answerLimit", "25 * time.Second", "within 25 s"},
	{"inspector/work", "freshFor", "time.Second", "at most 1 s old"},
	{"inspector/work", "HookLimit", "5 * time.Minute", "hook 5 min"},
	{"fsm/nodesync", "SuspectFor", "24 * time.Hour", "the same for 24 h"},
	{"fsm/nodesync", "SuspectShare", "5", "a fifth of the known nodes"},
	{"fsm/nodesync", "SuspectCount", "10", "and more than 10"},
	{"fsm/introspection", "MaxQueue", "10_000", "queue 10,000; attempts 3"},
	{"fsm/introspection", "MaxOfNode", "16", "callbacks of a node 16, 8 MiB"},
	{"fsm/introspection", "MaxBytesOfNode", "8 << 20", "callbacks of a node 16, 8 MiB"},
	{"fsm/introspection", "ReservedQueue", "1000", "1,000 places of the queue are kept for time-outs"},
	{"fsm/introspection", "MaxAttempts", "3", "queue 10,000; attempts 3"},
	{"fsm", "MaxRequests", "200_000", "request results 200,000, 10 min"},
	{"fsm", "Retention", "10 * time.Minute", "request results 200,000, 10 min"},
	{"fsm/blobs", "MaxBlob", "2 << 20", "2 MiB for a compressed document"},
	{"fsm/blobs", "MaxDocument", "8 << 20", "8 MiB before compression"},
	{"fsm/leases", "MaxLeases", "10_000", "leases 10,000; values 64 KiB each, 16 MiB together"},
	{"fsm/leases", "MaxValue", "64 << 10", "leases 10,000; values 64 KiB each, 16 MiB together"},
	{"fsm/leases", "MaxValueBytes", "16 << 20", "leases 10,000; values 64 KiB each, 16 MiB together"},
	{"fsm/membership", "MaxMembers", "64", "members 64"},
	{"fsm/eventring", "MaxEvents", "1_600 * perSegment", "102,400 events"},
	{"fsm/eventring", "perSegment", "64", "102,400 events"},
	{"fsm", "unseenEntries", "1 << 28", "2^28"},
	{"fsm", "tokensPerMilli", "1 << 10", "times 1024"},
	{"fsm", "latestToken", "1 << 53", "2^53"},
	{"lease", "renewalsGather", "50 * time.Millisecond", "up to 50 ms for others unless 64"},
	{"lease", "renewalsEnough", "64", "up to 50 ms for others unless 64"},
	{"failover", "maxBatch", "50", "(50 pods, 5 s)"},
	{"failover", "batchLife", "5 * time.Second", "(50 pods, 5 s)"},
	{"failover", "proofLife", "2 * time.Second", "proves leadership (2 s)"},
	{"failover", "confirmInterval", "time.Second", "two readings at least 1 s apart"},
	{"app", "snapshotBytes", "64 << 20", "when the log holds 64 MiB"},
	{"app", "orphanWait", "3 * time.Second", "hears of no leader for 3 s"},
	{"cluster/pki", "PeerTTL", "30 * day", "peer 30 days, operator 90 days, CA 10 years"},
	{"cluster/pki", "OperatorTTL", "90 * day", "peer 30 days, operator 90 days, CA 10 years"},
	{"cluster/pki", "CATTL", "10 * 365 * day", "peer 30 days, operator 90 days, CA 10 years"},
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
		declared := regexp.MustCompile(`(?m)^(?:const)?\s+` + v.name + `(?: [\w.]+)? += +(.*?)(?: +//.*)?$`)
		if found := declared.FindStringSubmatch(sources[v.pkg]); found == nil || found[1] != v.expr {
			t.Errorf("%s.%s is %q in the source; docs/design.md says %q, which was true of %q", v.pkg, v.name, found, v.words,
				v.expr)
		}
		if !strings.Contains(page, v.words) {
			t.Errorf("docs/design.md does not say %q, the value of %s.%s", v.words, v.pkg, v.name)
		}
	}
}
