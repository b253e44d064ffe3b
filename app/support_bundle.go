package app

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/bounds"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/redact"
	"github.com/trivet-ha/trivet/internal/supportbundle"
)

// Bounds of what a peer says of itself in a bundle, in bytes.
const (
	bundledLog   = 1 << 20
	bundledDump  = 1 << 20 // goroutines
	bundledFile  = 1 << 20 // of anything else
	passwordSize = 4 << 10 // of a file that holds one
)

// KeptLog is how many bytes of its log a peer should keep for operators.
const KeptLog = bundledLog

// errNotKept says why there is no log.
var errNotKept = errors.New("the program that runs this peer keeps no lines of its log; see the journal")

// bundler gathers what a peer knows of itself for support. Methods may be called
// concurrently.
type bundler struct {
	binary    string // version of the build
	recent    *logs.Ring
	conf      *admin.Configuration
	passwords *passwordFiles
	self      *health.Self
	figures   *health.Figures
	view      func() fsm.View
}

// files returns it without secrets. No file system that hangs holds it up, and it needs no quorum.
func (b bundler) files() []supportbundle.File {
	files := supportbundle.NewFiles(b.redactor())
	kernel, err := os.ReadFile("/proc/version")
	if err != nil {
		kernel = []byte(err.Error())
	}
	files.Add("version.txt", bundledFile,
		fmt.Appendf(nil, "trivet %s, log version %d, %s, %s/%s\n%s", b.binary, fsm.Version, runtime.Version(), runtime.GOOS,
			runtime.GOARCH, kernel), nil)
	files.Add("config.txt", bundledFile, b.conf.Text(), nil)
	files.JSON("status.json", bundledFile, b.self.Status(), nil)
	files.JSON("peers.json", bundledFile, b.self.Peers(), nil)
	files.JSON("firewall.json", bundledFile, b.self.Door.Firewall(), nil)
	files.JSON("state.json", bundledFile, summarise(b.view()), nil)
	metrics, err := b.metricsText()
	files.Add("metrics.txt", bundledFile, metrics, err)
	stacks := make([]byte, bundledDump)
	files.Add("goroutines.txt", bundledDump, stacks[:runtime.Stack(stacks, true)], nil)
	if b.recent == nil {
		files.Add("log.txt", bundledLog, nil, errNotKept)
	} else {
		files.Add("log.txt", bundledLog+passwordSize, []byte(b.recent.Text()), nil)
	}
	return files.List()
}

// redactor hides what operators must not be told.
func (b bundler) redactor() *redact.Redactor { return redact.New(b.secrets()...) }

// secrets are what a bundle must not contain, as far as this peer knows it:
// passwords of the configuration, and the cluster's keys.
func (b bundler) secrets() []string {
	conf, keys := b.conf.Current(), b.view().Secrets()
	out := append(conf.Secrets(), string(keys.CAKey), string(keys.GossipKey))
	for _, key := range b.view().GossipKeys() {
		out = append(out, string(key))
	}
	return append(out, b.passwords.look(conf)...)
}

// passwordFiles are the files that options name and hold passwords.
type passwordFiles struct{ bounds.Kept[string] }

// look reads the files of a configuration and returns their passwords; of one that cannot be read, or hangs, the one
// that was read last: there may be lines of the log from that time.
func (p *passwordFiles) look(conf config.Config) (passwords []string) {
	for _, s := range conf.Effective() {
		if s.Value == "" || !strings.HasSuffix(s.Key, "password_file") {
			continue
		}
		if text, known, _ := p.Read(s.Value, readPassword); known { // else it holds nothing that could have been read
			passwords = append(passwords, text)
		}
	}
	return passwords
}

func readPassword(path string) (string, error) {
	text, _, err := bounds.ReadFile(path, passwordSize)
	return strings.TrimSpace(string(text)), err
}

// summary is the replicated state in figures; its nodes may be 100,000.
type summary struct {
	Index       uint64                   `json:"index"`
	Time        string                   `json:"cluster_time"`
	Cluster     string                   `json:"cluster"`
	Incarnation uint64                   `json:"incarnation"`
	Version     int                      `json:"log_version"`
	Lead        entry.Leadership         `json:"leadership"`
	Members     []membership.Member      `json:"members"`
	MemberFlags []membership.MemberFlags `json:"member_flags"`
	Sessions    []membership.Session     `json:"sessions"`
	Pass        doors.Door               `json:"pass_door"`
	Address     doors.Door               `json:"address_door"`
	Claims      []introspection.Claim    `json:"claims"`
	Nodes       map[string]int           `json:"nodes"`  // by the state of their introspection
	Counts      map[string]int           `json:"counts"` // of everything else
}

func summarise(v fsm.View) summary {
	return summary{
		Index: v.Index(), Time: v.Now().String(), Cluster: v.ClusterID(), Incarnation: v.Incarnation(),
		Version: v.ClusterVersion(), Lead: v.Leadership(),
		Members: v.Members(), MemberFlags: v.AllMemberFlags(), Sessions: v.Sessions(), Pass: v.PassDoor(),
		Address: v.AddressDoor(), Claims: v.Claims(),
		Nodes: health.Introspections(v),
		Counts: map[string]int{
			"queue": v.QueueLength(), "ports": v.PortCount(), "rules": v.RuleCount(), "relays_pending": v.RelaysPending(),
			"leases":     len(v.Leases()),
			"kube_nodes": v.KubeNodesKnown(), "join_tokens": len(v.JoinTokens()), "operators": len(v.Operators()),
		},
	}
}

// metricsText is what a scrape would get.
func (b bundler) metricsText() ([]byte, error) {
	req, err := http.NewRequest(http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	w := page{header: make(http.Header)}
	promhttp.HandlerFor(b.figures, promhttp.HandlerOpts{DisableCompression: true}).ServeHTTP(&w, req)
	if w.code >= http.StatusBadRequest {
		return nil, fmt.Errorf("%d: %s", w.code, w.Bytes())
	}
	return w.Bytes(), nil
}

// page collects the answer of a handler that is called without a connection.
type page struct {
	bytes.Buffer
	header http.Header
	code   int
}

// Header implements http.ResponseWriter.
func (p *page) Header() http.Header { return p.header }

// WriteHeader implements http.ResponseWriter.
func (p *page) WriteHeader(code int) { p.code = code }
