package archtest

const ours = Module + "/"

var importFixtures = []fixture{
	{"down", "imports", "api/x.go", importing(ours + "raftstore"), nil},
	{"right on the line", "imports", "raftstore/leader/x.go", importing(ours + "cluster"), nil},
	{"future package", "imports", "failover/x.go", importing(ours + "firewall"), nil},
	{"main to cli", "imports", "x.go", importing(ours + "cli"), nil},
	{"child to parent", "imports", "firewall/nftables/x.go", importing(ours + "firewall"), nil},
	{"child downward", "imports", "firewall/nftables/x.go", importing(ours + "config"), nil},
	{"parent to its part", "imports", "fsm/x.go", importing(ours + "fsm/fencing"), nil},
	{"to a folder with a place of its own", "imports", "api/x.go", importing(ours + "api/events"), nil},
	{"past an exception", "imports", "haconfig/x.go", importing(ours + "raftstore/leader"), nil},
	{"client of a client", "imports", "client/lease/x.go", importing(ours + "client"), nil},
	{"child to a part of its parent", "imports", "inspector/hooks/x.go", importing(ours + "inspector/lldp"), nil},
	{"external test of itself", "imports", "fsm/x_test.go", importing(ours + "fsm"), nil},
	{"harness takes anything", "imports", "test/labtest/x.go", importing(ours + "app"), nil},
	{"other modules", "imports", "fsm/x.go", importing("github.com/trivet-ha/trivetlike/cli"), nil},

	{"up", "imports", "raftstore/x.go", importing(ours + "raftstore/leader"), []int{3}},
	{"up in a test", "imports", "fsm/x_test.go", importing(ours + "raftstore"), []int{3}},
	{"left on the line", "imports", "config/x.go", importing(ours + "fsm"), []int{3}},
	{"main past cli", "imports", "x.go", importing(ours + "app"), []int{3}},
	{"cli past app", "imports", "cli/x.go", importing(ours + "raftstore"), []int{3}},
	{"parent to child", "imports", "firewall/x.go", importing(ours + "firewall/nftables"), []int{3}},
	{"sibling", "imports", "firewall/dnsmasq/x.go", importing(ours + "firewall/nftables"), []int{3}},
	{"child left on the line", "imports", "firewall/nftables/x.go", importing(ours + "raftstore/leader"), []int{3}},
	{"effect to raft", "imports", "firewall/nftables/x.go", importing(ours + "raftstore"), []int{3}},
	{"back from a folder with a place of its own", "imports", "api/events/x.go", importing(ours + "api"), []int{3}},
	{"part to parent", "imports", "fsm/fencing/x.go", importing(ours + "fsm"), []int{3}},
	{"client to the house", "imports", "client/lease/x.go", importing(ours + "internal/logs"), []int{3}},
	{"no place", "imports", "util/x.go", "package util\n", []int{1}},

	{"raftstore", "raft", "raftstore/x.go", importing("github.com/hashicorp/raft"), nil},
	{"simtest", "raft", "test/simtest/x_test.go", importing("github.com/hashicorp/raft"), nil},
	{"memberlist is no raft", "raft", "cluster/x.go", importing("github.com/hashicorp/memberlist"), nil},
	{"app", "raft", "app/x.go", importing("github.com/hashicorp/raft"), []int{3}},
	{"leader", "raft", "raftstore/leader/x.go", importing("github.com/hashicorp/raft"), []int{3}},
	{"boltdb in a test", "raft", "app/x_test.go", importing("github.com/hashicorp/raft-boltdb/v2"), []int{3}},
	{"other harness", "raft", "test/labtest/x.go", importing("github.com/hashicorp/raft"), []int{3}},

	{"raft", "raftguard", "raftstore/raftguard/x.go", importing("github.com/hashicorp/raft"), nil},
	{"standard library", "raftguard", "raftstore/raftguard/wal/x.go", importing("crypto/hmac"), nil},
	{"house", "raftguard", "raftstore/raftguard/x.go", importing(ours + "internal/logs"), []int{3}},
	{"harness in a test", "raftguard", "raftstore/raftguard/wal/x_test.go", importing(ours + "test/testwait"), []int{3}},
	{"another module", "raftguard", "raftstore/raftguard/x.go", importing("golang.org/x/sys/unix"), []int{3}},
	{"another package", "raftguard", "raftstore/host/x.go", importing("golang.org/x/sys/unix"), nil},

	{"reader", "drivers", "cli/trivet-import/inspectordb/x.go", importing("modernc.org/sqlite"), nil},
	{"trivet-import", "drivers", "cli/trivet-import/importer/x.go", importing(ours + "cli/trivet-import/inspectordb"),
		nil},
	{"test", "drivers", "cli/x_test.go", importing("modernc.org/sqlite"), nil},
	{"cli to a driver", "drivers", "cli/data/x.go", importing("github.com/jackc/pgx/v5"), []int{3}},
	{"cli to the reader", "drivers", "cli/data/x.go", importing(ours + "cli/trivet-import/inspectordb"), []int{3}},
	{"cli to the importer", "drivers", "cli/x.go", importing(ours + "cli/trivet-import/importer"), []int{3}},
	{"trivet-import to a driver", "drivers", "cli/trivet-import/x.go", importing("database/sql"), []int{3}},

	{"test", "templates", "api/web/x_test.go", importing("text/template"), nil},
	{"harness", "templates", "packaging/x.go", importing("text/template"), nil},
	{"text", "templates", "cli/x.go", importing("text/template"), []int{3}},
	{"page", "templates", "api/web/x.go", importing("html/template"), []int{3}},

	{"test", "harness", "raftstore/leader/x_test.go", importing(ours + "test/simtest"), nil},
	{"other harness", "harness", "test/labtest/x.go", importing(ours + "test/simtest"), nil},
	{"product", "harness", "raftstore/leader/x.go", importing(ours + "test/simtest"), []int{3}},
	{"product to simulator", "harness", "app/x.go", importing(ours + "test/sandbox/simironic"), []int{3}},
	{"product to lab", "harness", "cli/x.go", importing(ours + "test/labtest"), []int{3}},
}

var textFixtures = []fixture{
	{"resolves", "citation", "fsm/x.go", `// Package fsm is a function: docs/design.md#time, DESIGN.md, raftstore/DESIGN.md.
package fsm
`, nil},
	{"leads nowhere", "citation", "fsm/x.go", "// Package fsm is a function (docs/design" + `.md#nothing).
package fsm

// A is of docs/nothing` + `.md.
const b = "see docs/pxe` + `.md#nothing"
`, []int{1, 4, 5}},
	{"documented", "doc", "fsm/x.go", `// Package fsm is a function.
package fsm

// A is one.
type A int

// B does.
func (A) B() {}

type c int

func (c) D() {}

// The colours.
const (
	Red = iota
	Green
)

var (
	Blue = 1 // the sky
	grey = 2
)
`, nil},
	{"bare", "doc", "fsm/x.go", `package fsm

type A int

func (*A) B() {}

func C() {}

const D = 1

var (
	E, f = 1, 2
	//
	G = 3
)

// A group of types.
type (
	H int
	// I is one.
	I[T any] int
)

func (I[T]) J() {}
`, []int{1, 3, 5, 7, 9, 12, 14, 19, 24}},
	{"tests need none", "doc", "fsm/x_test.go", "package fsm\n\nfunc Helper() {}\n", nil},
	{"generated needs none", "doc", "fsm/x.go",
		"// Code generated by hand. DO NOT EDIT.\n\npackage fsm\n\nfunc Helper() {}\n", nil},

	{"method", "init", "fsm/x.go", "package fsm\n\ntype a int\n\nfunc (a) init() {}\n", nil},
	{"function", "init", "fsm/x.go", "package fsm\n\nfunc init() {}\n", []int{3}},

	{"handed in", "global", "app/x.go", `package app

import (
	"errors"
	"log/slog"
	"time"
)

var errGone = errors.New("gone")

var grace = 2 * time.Second

var names = map[string]int{"a": 1}

var clock = func() time.Time { return time.Now() }

var _ interface{ Info(string, ...any) } = (*slog.Logger)(nil)

func count(grace int) {
	names := map[string]int{}
	names["b"]++
	_ = names
	grace = 3
	local := grace
	local++
}
`, nil},
	{"kept", "global", "app/x.go", `package app

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var log = slog.Default()

var logger *slog.Logger

var started = time.Now()

var now = time.Now

var dice *rand.Rand

var total = prometheus.NewCounter(prometheus.CounterOpts{})

var once sync.Once

var pool = struct{ p sync.Pool }{}
`, []int{12, 14, 16, 18, 20, 22, 24, 26}},
	{"changed", "global", "app/x.go", `package app

var count int

var names = map[string]int{}

var state struct{ n [3]int }

func change() {
	count++
	names["a"] = 1
	state.n[0] += 2
	func() { (count) = 3 }()
}
`, []int{10, 11, 12, 13}},

	{"keys of the log", "logkeys", "app/x.go", `package app

import (
	"context"
	"log/slog"
)

func say(ctx context.Context, log *slog.Logger, o struct{ Logger *slog.Logger }, key string) {
	log.Warn("a", "again in", 1)
	log.Warn("a", "err", 1, "error", 2)
	o.Logger.With("Peer", "h1").InfoContext(ctx, "a", "why", 1)
	log.Info("a", key, 1)
	log.Info("a", slog.String("again-in", ""))
	log.With("part", "p", "x", 1).Debug("a")
}
`, []int{9, 10, 11, 12, 13, 14}},
	{"documented keys", "logkeys", "app/x.go", `package app

import (
	"context"
	"log/slog"
	"net/http"
)

func say(ctx context.Context, log *slog.Logger, w http.ResponseWriter, keys []any) {
	log.Warn("a "+w.Header().Get("b"), "err", 1, "retry_in", 2)
	log.InfoContext(ctx, "a", who(), "peer", "h1")
	log.With(keys...).Error("a", slog.Int("repeated", 2))
	http.Error(w, "Why", 500)
}

func who() slog.Attr { return slog.String("peer", "h1") }
`, nil},
	{"bubble", "sleep", "app/x_test.go", `package app

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
	})
}

// settle waits; it is called in a bubble only.
func settle() { time.Sleep(time.Second) }

func other() {
	time.Sleep(time.Second) // in a bubble
}
`, nil},
	{"wrapper and helpers", "sleep", "app/x_test.go", `package app

import (
	"testing"
	"testing/synctest"
	"time"
)

func simulate(t *testing.T, body func()) {
	synctest.Test(t, func(t *testing.T) { body() })
}

func TestA(t *testing.T) {
	simulate(t, func() { time.Sleep(time.Hour); until() })
	simulate(t, wait)
}

func until() { wait() }

func wait() { time.Sleep(time.Hour) }
`, nil},
	{"helper also in real time", "sleep", "app/x_test.go", `package app

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { until() })
	until()
}

func until() { wait() }

func wait() { time.Sleep(time.Hour) }

func unused() { time.Sleep(time.Hour) }
`, []int{16, 18}},
	{"real", "sleep", "app/x_test.go", `package app

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestA(t *testing.T) {
	time.Sleep(time.Millisecond)
	synctest.Test(t, func(t *testing.T) {})
	go func() { time.Sleep(time.Hour) }()
}
`, []int{10, 12}},
	{"by another name", "sleep", "app/x_test.go", `package app

import (
	"testing"
	"time"
)

func TestA(t *testing.T) {
	<-time.After(time.Millisecond)
	select {
	case <-time.After(time.Second):
	case <-t.Context().Done():
	}
	for range time.Tick(time.Second) {
	}
}
`, []int{9, 11, 14}},
	{"no test", "sleep", "app/x.go", "package app\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n", nil},
	{"harness", "sleep", "test/labtest/x.go", "package labtest\n\nimport \"time\"\n\nfunc f() { <-time.After(1) }\n",
		[]int{5}},
	{"all in a bubble", "sleep", "test/simtest/x.go",
		"package simtest\n\nimport \"time\"\n\nfunc f() { <-time.After(1) }\n", nil},
	{"owns the waits", "sleep", waitPackage + "/x.go",
		"package testwait\n\nimport \"time\"\n\nfunc f() { <-time.After(1) }\n", nil},
}

var purityFixtures = []fixture{
	{"values", "pure", "fsm/x.go", `package fsm

import "time"

func f(at time.Time, d time.Duration) time.Time { return at.Add(d * time.Second) }
`, nil},
	{"tests may", "pure", "fsm/x_test.go", "package fsm\n\nimport _ \"os\"\n", nil},
	{"other packages may", "pure", "app/x.go", "package app\n\nimport _ \"os\"\n", nil},
	{"config reads files", "pure", "config/x.go", "package config\n\nimport _ \"os\"\n", nil},
	{"impure imports", "pure", "fsm/x.go", `package fsm

import (
	_ "crypto/rand"
	_ "log"
	_ "log/slog"
	_ "math/rand"
	_ "net"
	_ "os"
	_ "sync"
	_ "sync/atomic"
)
`, []int{4, 5, 6, 7, 8, 9, 10, 11}},
	{"clock and goroutines", "pure", "fsm/x.go", `package fsm

import "time"

func f() {
	time.Now()
	time.Since(time.Time{})
	<-time.After(1)
	time.Tick(1)
	go f()
	select {}
	c := make(chan int)
	c <- 1
	g(time.Now)
}
`, []int{6, 7, 8, 8, 9, 10, 11, 12, 13, 14}},
	{"randomness is handed in", "pure", "cluster/pki/x.go", "package pki\n\nimport _ \"crypto/rand\"\n", []int{3}},
	{"children too", "pure", "fsm/table/x.go", "package table\n\nimport _ \"os\"\n", []int{3}},

	{"sorted or excused", "maporder", "fsm/x.go", `package fsm

import (
	"maps"
	"slices"
)

func f(m map[string]int, s []int) (total int) {
	for range s {
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		total += m[k]
	}
	for _, n := range m { // order-free: a sum
		total += n
	}
	// order-free: a sum
	for n := range maps.Values(m) {
		total += n
	}
	return total
}
`, nil},
	{"in map order", "maporder", "fsm/x.go", `package fsm

import "maps"

type table map[string]int

func f(m table) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	for k := range maps.Keys(m) {
		keys = append(keys, k)
	}
	for k := range m { // order-free:
		keys = append(keys, k)
	}
	return keys
}

func g[M ~map[K]V, K comparable, V any](m M) (keys []K) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}
`, []int{8, 11, 14, 21}},
	{"does not compile", "maporder", "fsm/x.go", "package fsm\n\nvar x undefined\n", []int{1}},
	{"a server", "class", "app/x.go",
		"package app\n\nimport \"net/http\"\n\nvar mux = http.NewServeMux()\n\nvar s = http.Server{Handler: mux}\n",
		[]int{5, 7}},
	{"a router", "class", "api/x.go", "package api\n\nimport \"github.com/labstack/echo/v4\"\n\nvar e = echo.New()\n",
		[]int{5}},
	{"with classes", "class", "cluster/routes.go",
		"package cluster\n\nimport \"net/http\"\n\nvar mux = http.NewServeMux()\n", nil},
	{"a client", "class", "app/x.go", "package app\n\nimport \"net/http\"\n\nvar c = http.Client{}\n", nil},
}
