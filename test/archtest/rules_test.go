package archtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// flagged ends the lines of a source at which a rule must find fault.
const flagged = " //!"

// inFixtures begins each source that names no package.
const inFixtures = `package p; import ("context"; "errors"; "log/slog"; "maps"; "math/rand/v2"; "net"; "net/http"; "os"; ` +
	`"os/exec"; "slices"; "sync"; "syscall"; "testing"; "testing/synctest"; "time")` + "\n"

// TestRules: each rule finds fault at the lines of small sources that are flagged, and at
// no others.
func TestRules(t *testing.T) {
	finds := make(map[string]bool)
	for i, f := range fixtures {
		t.Run(fmt.Sprintf("%s/%d", f.rule, i), func(t *testing.T) {
			tree := NewTree("../..")
			tree.add(t, "docs/time.md", "# A\n\n## The clock\n")
			tree.add(t, keysPage, "\n### Keys\n| key | |\n| `err`, `retry_in` | |\n| `peer` | |\n")
			tree.add(t, "test/mutants/rows/a.diff", "mutant: one\n")
			tree.add(t, "lease/a_test.go", "package lease\n\nfunc TestA() {}\n")
			archive := txtar.Parse([]byte("-- " + f.file + " --\n" + f.source + "\n"))
			var want []string
			for _, file := range archive.Files {
				source := strings.TrimSuffix(string(file.Data), "\n")
				if strings.HasSuffix(file.Name, ".go") && !strings.Contains(source, "package ") {
					source = inFixtures + source
				}
				for line, text := range strings.Split(source, "\n") {
					if strings.HasSuffix(text, flagged) {
						want = append(want, fmt.Sprintf("%s:%d", file.Name, line+1))
					}
				}
				tree.add(t, file.Name, strings.ReplaceAll(source, flagged, ""))
			}
			finds[f.rule] = finds[f.rule] || len(want) > 0
			if got := found(tree, f.rule); !slices.Equal(got, want) {
				t.Errorf("flagged %v, want %v of\n%s", got, want, f.source)
			}
		})
	}
	for _, rule := range rules() {
		if !finds[rule.name] {
			t.Errorf("rule %s needs a fixture that it flags", rule.name)
		}
	}
}

// found returns the lines at which a rule finds fault.
func found(tree *Tree, name string) (places []string) {
	for _, rule := range rules() {
		if rule.name == name {
			for _, finding := range rule.judge(tree) {
				places = append(places, fmt.Sprintf("%s:%d", finding.File, finding.Line))
			}
		}
	}
	return slices.Compact(places)
}

func (t *Tree) add(test *testing.T, name, source string) {
	test.Helper()
	if err := t.Add(name, source); err != nil {
		test.Fatal(err)
	}
}

// TestImports: a file may import some paths and not others; "~" is this module.
func TestImports(t *testing.T) {
	for _, row := range importRows {
		for list, want := range map[string][]string{row.may: nil, row.mayNot: {row.file + ":3"}} {
			for _, target := range strings.Fields(list) {
				tree := NewTree(".")
				tree.add(t, row.file, fmt.Sprintf("package p\n\nimport _ %q\n", strings.Replace(target, "~", Module+"/", 1)))
				if got := found(tree, "imports"); !slices.Equal(got, want) {
					t.Errorf("imports of %s by %s: %v, want %v", target, row.file, got, want)
				}
			}
		}
	}
}

func TestLoadNamesTheFileThatDoesNotParse(t *testing.T) {
	err := NewTree(".").Add("fsm/broken.go", "package fsm\nfunc {")
	if err == nil || !strings.Contains(err.Error(), "fsm/broken.go:2") {
		t.Errorf("got %v", err)
	}
}

// TestBubbleTests: a test enters a bubble in a function that it calls; one of a listener
// enters none. What calls what is in the fixtures of sleep and hermetic.
func TestBubbleTests(t *testing.T) {
	all := BubbleTests(wholeTree(t))
	if !slices.Contains(all["failover"], "TestStalledAPIServer") ||
		slices.Contains(all["internal/httpserver"], "TestOneSourceHasItsShare") {
		t.Errorf("of the repository: %v", all)
	}
}

// importRows are files with what they may not import, for the house and for the bans, and
// with what is like it and allowed.
var importRows = []struct{ file, may, mayNot string }{
	// Down, to the right on a line, to a folder with a place of its own; not up, nor to the left.
	{"raftstore/leader/x.go", "~cluster", "github.com/hashicorp/raft ~test/simtest"},
	{"raftstore/x.go", "github.com/hashicorp/raft", "~raftstore/leader ~test/simtest"},
	{"config/x.go", "os", "~fsm math/rand/v2"},
	{"api/events/x.go", "", "~api"},
	{"x.go", "~cli", "~app"},
	{"haconfig/x.go", "~raftstore/leader", "~raftstore"},
	{"client/lease/x.go", "~client", "~internal/logs"},
	// Children, parts, siblings.
	{"firewall/x.go", "", "~firewall/nftables"},
	{"firewall/nftables/x.go", "~firewall ~config", "~firewall/dnsmasq ~raftstore/leader ~raftstore"},
	{"fsm/fencing/x.go", "", "~fsm"},
	{"inspector/work/x.go", "~raftstore/logerr", "~cluster ~cluster/pki"},
	// Consensus, and what corrects it.
	{"raftstore/raftguard/x.go", "github.com/hashicorp/raft go.etcd.io/bbolt crypto/hmac",
		"~internal/logs golang.org/x/sys/unix github.com/hashicorp/memberlist"},
	{"raftstore/raftguard/wal/x_test.go", "", "~test/testwait"},
	// Tests and harnesses.
	{"test/labtest/x.go", "~app ~test/simtest modernc.org/sqlite", "github.com/hashicorp/raft"},
	{"app/x.go", "", "github.com/hashicorp/raft ~test/sandbox/simironic ~packaging"},
	{"app/x_test.go", "text/template", "github.com/hashicorp/raft-boltdb/v2"},
	// What is heavy.
	{"cli/trivet-import/x.go", "", "database/sql ~cli/trivet-import/inspectordb"},
	{"cli/x_test.go", "modernc.org/sqlite ~raftstore/leader", "~raftstore ~raftstore/logerr"},
	{"cli/x.go", "",
		"github.com/jackc/pgx/v5 ~cli/trivet-import/inspectordb ~cli/trivet-import/importer text/template ~test/labtest"},
	{"api/web/x.go", "html/template/x", "html/template"},
	// Values and rules.
	{"fsm/x.go", "path time ~fsm/fencing github.com/trivet-ha/trivetlike/cli",
		"crypto/rand log log/slog math/rand net net/http os sync sync/atomic context"},
	{"fsm/table/x.go", "", "os"},
	{"fsm/x_test.go", "os ~fsm", "~raftstore"},
	{"cluster/pki/x.go", "crypto/x509", "crypto/rand os ~fsm"},
}

// fixtures are small sources, in whose lines that end in flagged, and in no others, a rule
// must find fault. What a rule must leave is not here where the repository has it, since
// TestHouse judges that.
var fixtures = []struct{ rule, file, source string }{
	{"imports", "util/x.go", "package util //!"},

	{"doc", "fsm/x.go", `package fsm //!

// A is one.
type A int

// B does.
func (A) B() {}
func (*A) C() {} //!
func E() {} //!

const F = 1 //!
var (
	G, h = 1, 2 //!
	//
	I = 3 //!
)

// A group of types.
type (
	J int //!
	K[T any] int //!
)
func (K[T]) L() {} //!`},

	{"init", "fsm/x.go", "type a int\nfunc (a) init() {}\nfunc init() {} //!"},

	{"global", "app/x.go", `
var log = slog.Default() //!
var logger *slog.Logger //!
var started = time.Now() //!
var now = time.Now //!
var dice *rand.Rand //!
var total = prometheus.NewCounter(prometheus.CounterOpts{}) //!
var pool = struct{ p sync.Pool }{} //!

var (
	count int
	names = map[string]int{}
	state struct{ n [3]int }
)

func change() {
	count++ //!
	names["a"] = 1 //!
	state.n[0] += 2 //!
	func() { (count) = 3 }() //!
}`},

	{"pure", "fsm/table/x.go", `
func f(at time.Time) {
	time.Now() //!
	time.Since(at) //!
	<-time.After(1) //!
	go f() //!
	select {} //!
	c := make(chan int) //!
	c <- 1 //!
	<-c //!
	g(time.Now) //!
}`},

	{"maporder", "fsm/x.go", "package fsm //!\n\nvar x undefined"},
	{"maporder", "fsm/x.go", `package fsm

import "maps"

type table map[string]int

func f(m table) (keys []string) {
	for k := range m { //!
		keys = append(keys, k)
	}
	for k := range maps.Keys(m) { //!
		keys = append(keys, k)
	}
	// order-free:
	for k := range m { //!
		keys = append(keys, k)
	}
	return keys
}

func g[M ~map[K]V, K comparable, V any](m M) {
	for range m { //!
	}
}`},

	{"class", "app/x.go", "var mux = http.NewServeMux() //!\nvar s = http.Server{} //!"},
	{"class", "api/x.go", "var e = echo.New() //!"},

	{"size", "app/x_test.go", "package app //!\n" + strings.Repeat("\n", maxFileLines)},
	{"size", architecture, " //!\n" + strings.Repeat("\n", maxPageLines)},

	{"size", "app/x.go", "// f does.\nfunc f() { //!\n" + strings.Repeat("\n", maxFuncLines-1) + "}"},

	{"size", "app/x.go", "package app\n\n// " + strings.Repeat("ä", maxColumns-3) +
		"\n// " + strings.Repeat("a", maxColumns) + flagged +
		"\nvar a = f(b, \"" + strings.Repeat("a", maxColumns) + "\") //!" +
		"\nvar b, c = " + strings.Repeat("d + ", maxColumns/4) + "e, \"\" //!"},
	{"size", readme, strings.Repeat("a", maxPageColumns) + "\n" + strings.Repeat("a", maxPageColumns+1) + flagged},

	{"logkeys", "app/x.go", `
func say(ctx context.Context, log *slog.Logger, o struct{ Logger *slog.Logger }, key string) {
	log.Warn("a", "again in", 1) //!
	log.Warn("a", "err", 1, "error", 2) //!
	o.Logger.With("Peer", "h1").InfoContext(ctx, "a", "why", 1) //!
	log.Info("a", key, 1) //!
	log.Info("a", slog.String("again-in", "")) //!
	log.With("part", "p", "x", 1).Debug("a") //!
}`},

	{"sleep", "app/x_test.go", `
func TestA(t *testing.T) {
	time.Sleep(time.Millisecond) //!
	go func() { time.Sleep(time.Hour) }() //!
	<-time.After(time.Millisecond) //!
	for range time.Tick(time.Second) { //!
	}
	synctest.Test(t, func(t *testing.T) { time.Sleep(time.Hour); mixed() })
	simulate(t, func() { until() })
	simulate(t, wait)
	mixed()
	time.Sleep(time.Second) // in a bubble
}

// noted waits; it is called in a bubble only.
func noted() { time.Sleep(time.Second) }

func simulate(t *testing.T, body func()) { synctest.Test(t, func(t *testing.T) { body() }) }

func until() { wait() }
func wait() { time.Sleep(time.Hour) }

func mixed() { deeper() }
func deeper() { time.Sleep(time.Hour) } //!
func unused() { time.Sleep(time.Hour) } //!`},
	{"sleep", "test/labtest/x.go", "func F() { <-time.After(1); again() } //!\nfunc again() { F() }"},

	{"hermetic", "app/x_test.go", `
var _ = exec.Command("true").Run() //!
var _ = exec.CommandContext(ctx, "true") //!
var _, _ = os.StartProcess("true", nil, nil) //!
var _, _ = syscall.ForkExec("true", nil, nil) //!

func elapsed(t *testing.T) {
	began := time.Now()
	deadline := began.Add(time.Second)
	_ = time.Now().After(deadline) //!
	if time.Since(began) > time.Second { //!
	}
	if took := time.Since(began); took.Seconds() >= 3 { //!
	}
	var all []time.Duration
	for range 3 {
		all = append(all, time.Now().Sub(began).Round(time.Second))
	}
	if max(all[0], time.Hour) < time.Minute { //!
	}
	for _, took := range all {
		func() { _ = 2*took <= time.Second }() //!
	}
}

func deadlines(t *testing.T) {
	_, _ = context.WithTimeout(t.Context(), 5*time.Second) //!
	_, _ = net.DialTimeout("tcp", "", time.Minute) //!
	_ = c.SetReadDeadline(time.Now().Add(testwait.Limit)) //!
	_ = http.Client{Timeout: 1500 * time.Millisecond} //!
}`},
	{"hermetic", "app/x_test.go", `
var _, _ = net.Listen("tcp", "127.0.0.1:8080") //!
var _, _ = net.ListenUDP("udp", &net.UDPAddr{Port: 53}) //!
var _ = http.Server{Addr: ":6385"} //!
var _ = &http.Server{Addr: "[::1]:http"} //!

func again(at string) (net.Listener, error) { return net.Listen("tcp", at) } //!

func closed() {
	ln, _ := net.Listen("tcp", "127.0.0.1:0")
	address := "http://" + ln.Addr().String()
	_ = ln.Close()
	_, _ = http.Get(address) //!
}

func gone() {
	server := httptest.NewServer(nil)
	server.Close()
	_, _ = http.Get(server.URL) //!
}

func free(n int) (all []string) {
	for range n {
		conn, _ := net.ListenPacket("udp", "127.0.0.1:0")
		defer conn.Close()
		all = append(all, conn.LocalAddr().String())
	}
	return all //!
}

func one() (address string) {
	ln, _ := net.ListenTCP("tcp", &net.TCPAddr{})
	defer ln.Close()
	address = ln.Addr().String()
	return //!
}`},

	// A harness is judged because a test imports it, directly or through another, and a test
	// that calls what starts a process in its package is found.
	{"hermetic", "app/x.go", `package app

import "os/exec"

func start() { _ = exec.Command("true") }
func run() { start() }
-- app/x_test.go --
//go:build !e2e

package app

import "github.com/trivet-ha/trivet/test/outer"

func use() {
	outer.Use()
	run() //!
}
-- app/slow_test.go --
//go:build e2e

package app

import _ "github.com/trivet-ha/trivet/test/slow"
-- test/inner/x.go --
package inner

import "os/exec"

func run() { _ = exec.Command("true") } //!
-- test/outer/x.go --
package outer

import _ "github.com/trivet-ha/trivet/test/inner"
-- test/slow/x.go --
func run() { _ = exec.Command("true") }`},

	{"links", "fsm/x.go", "// Package fsm is a function: docs/time.md#the-clock.\npackage fsm\n\n" +
		"// A is of docs/nothing" + ".md. //!\nconst a = \"see docs/time" + ".md#nothing\" //!"},

	{"links", "docs/README.md", "[time](time.md) //!"},
	{"links", "docs/one.md", "# Two `words`!\n\n## Two words\n\n<a id=\"proof\"></a>\n" +
		"[out](https://example.org/x.md), [headed](#two-words), [self](#proof)\n" +
		"```\n[fenced](nowhere.md)\n```\n<!-- [comment](nowhere.md)\n-->" +
		"[gone](nowhere.md) //!\n[lost](#lost) //!\n[file](../none.go) //!\n[other](time.md#none) //!"},

	{"names", "docs/specs.md", "`lease.TestA` `TestA`, `Test…`\n`fsm.TestA` //!\n`TestGone` //!\n`TestG…` //!"},
	{"names", "docs/promises.md", "| promise | guarded by | mutants |\n|---|---|---|\n" +
		"| one | `TestA` | one |\n| two | `TestA` | two | //!\n| three | x | see `rows/a.diff`, `rows/b.diff` | //!"},

	{"words", "fsm/x.go", "\n// A is for whoever asks. //!\nconst A = \"nobody asks\" //!\n\n" +
		"var newCrew = \"sulk\" //!\n\n// A talent, silent."},
	{"words", "fsm/x_test.go", "\n// A test may say whatever it likes, of talents.\n\n// somebody's crew //!"},
	{"words", "docs/one.md", "Whoever asks //!\nis told that it is over. //!\n```\nnobody\n```\n<!-- anew -->\n" +
		"It stands beside it, //!\nand we are told `anew` apart."},
	{"words", "CONTRIBUTING.md", "## Sentences\nsomebody\n## More\nanybody //!"},
}
