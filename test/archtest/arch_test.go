package archtest

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// wholeTree is the repository, read once for all tests, which must not change it.
func wholeTree(t *testing.T) *Tree {
	t.Helper()
	tree, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

var load = sync.OnceValues(func() (*Tree, error) { return Load(filepath.Join("..", "..")) })

// TestHouse judges the repository itself.
func TestHouse(t *testing.T) {
	tree := wholeTree(t)
	if len(tree.Files) < 10 || len(tree.texts) < 10 {
		t.Fatalf("only %d files and %d texts: the walk is broken", len(tree.Files), len(tree.texts))
	}
	for _, rule := range rules() {
		for _, finding := range rule.judge(tree) {
			t.Error(finding)
		}
	}
}

// overBounds is what is over a bound, and by how much.
var overBounds = map[string]int{
	"config.Config": 19, // a field a section of the file: a group would lengthen each path and mean nothing
}

// TestTypesAndPackagesStaySmall: a type that knows everything, and a package that holds
// everything, begin with one more.
func TestTypesAndPackagesStaySmall(t *testing.T) {
	m := measured(wholeTree(t))
	large := over(m.methods, maxMethods)
	maps.Copy(large, over(m.structs, maxFields))
	maps.Copy(large, over(m.files, maxPackageFiles))
	if !maps.Equal(large, overBounds) {
		t.Errorf("over a bound: %v, want only %v: give a part of it to a type or package of its own", large, overBounds)
	}
}

// TestTopLevelIsBounded: few folders, few arrows between them, and no two that
// import each other, over others or directly.
func TestTopLevelIsBounded(t *testing.T) {
	tree := wholeTree(t)
	if n := len(tree.Folders); n > maxFolders {
		t.Errorf("%d folders at the top; at most %d: %v", n, maxFolders, tree.Folders)
	}
	arrows := arrows(tree)
	if n := len(arrows); n > maxArrows || n < 20 {
		t.Errorf("%d arrows between folders; at most %d: %v", n, maxArrows, arrows)
	}
	if _, circles := floors(arrows); len(circles) > 0 {
		t.Errorf("folders import each other, reached from %v", circles)
	}
}

var update = flag.Bool("update", false, "write the picture in ARCHITECTURE.md again")

// TestArchitectureHasThePicture: the picture in ARCHITECTURE.md, in its one fence, is the
// one that is made of the source (make picture).
func TestArchitectureHasThePicture(t *testing.T) {
	tree := wholeTree(t)
	parts := strings.Split(tree.texts[architecture].Source, "```")
	if len(parts) != 3 {
		t.Fatalf("%s has %d fences, want the one picture", architecture, len(parts)-1)
	}
	want := "\n" + picture(tree)
	if *update {
		page := parts[0] + "```" + want + "```" + parts[2]
		if err := os.WriteFile(filepath.Join(tree.Root, architecture), []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if different := pictureDiffers(parts[1], want); different != "" {
		t.Errorf("the picture in %s is not that of the source (%s): run 'make picture'", architecture, different)
	}
}

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
