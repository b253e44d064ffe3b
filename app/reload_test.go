package app

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/test/msgcheck"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// reloadable is a peer whose configuration a test can change.
type reloadable struct {
	*Peer
	t     *testing.T
	mu    sync.Mutex
	flags map[string]string
	log   atomic.Pointer[config.Log]

	recent *logs.Ring // what its log holds
}

func newReloadable(t *testing.T) *reloadable {
	t.Helper()
	dir := t.TempDir()
	r := &reloadable{t: t, recent: logs.NewRing(KeptLog, "test"), flags: map[string]string{
		"name": "h1", "data_dir": filepath.Join(dir, "d"), "socket": filepath.Join(dir, "s"), "api.listen": "127.0.0.1:0",
		"cluster.listen": "127.0.0.1:0", "gossip.listen": testenv.FreePort(t),
		"cluster.advertise": "127.0.0.1:7350", "gossip.advertise": "127.0.0.1:7351", "firewall.driver": "noop",
		"ironic.retries": "0",
	}}
	conf, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	data, err := datadir.Open(conf.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	host := datadir.Host{Config: conf, Binary: "test", Wall: time.Now, Random: rand.Reader}
	if _, err := host.Init(data); err != nil {
		t.Fatal(err)
	}
	r.Peer, err = New(t.Context(),
		Options{Config: conf, Dir: data, Binary: "test", Logger: msgcheck.Logger(t), Wall: time.Now, Random: rand.Reader,
			Exit: func(code int, why error) { t.Errorf("exit %d: %v", code, why) },
			Load: r.load, Log: func(c config.Log) { r.log.Store(&c) }, Recent: r.recent})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testwait.Bound(testwait.Limit))
		defer cancel()
		if err := errors.Join(r.Stop(ctx), data.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *reloadable) load() (config.Config, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return config.Load(config.Sources{Flags: r.flags})
}

// set changes keys and reloads.
func (r *reloadable) set(keysAndValues ...string) (admin.Reloaded, error) {
	r.mu.Lock()
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		r.flags[keysAndValues[i]] = keysAndValues[i+1]
	}
	r.mu.Unlock()
	return r.Admin().Configuration.Reload()
}

// must is set where everything has to count at once.
func (r *reloadable) must(keysAndValues ...string) {
	r.t.Helper()
	got, err := r.set(keysAndValues...)
	if err != nil || len(got.Restart) > 0 || len(got.Applied) != len(keysAndValues)/2 {
		r.t.Fatalf("applied %v, to restart for %v, %v", got.Applied, got.Restart, err)
	}
}

func (r *reloadable) status(path string) int {
	r.t.Helper()
	resp, err := http.Get(r.APIURL() + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func (r *reloadable) warns(code string) (text string) {
	for _, w := range r.Status().Warnings {
		if w.Code == code {
			text = w.Text
		}
	}
	return text
}

// One key of each kind, and what it does.
func TestReloadTakesEffect(t *testing.T) {
	r := newReloadable(t)

	if got := r.status("/healthcheck"); got == http.StatusNotFound {
		t.Error("there is no healthcheck at first")
	}
	r.must("api.healthcheck", "false")
	if got := r.status("/healthcheck"); got != http.StatusNotFound {
		t.Errorf("not-reloaded: the healthcheck answers %d", got)
	}

	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("ann:$2y$05$abcdefghijklmnopqrstuu5LgKb8yUQ3dEb0Zy9GdC9Bc7d1nC5bG\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	before := r.status("/v1/introspection")
	r.must("api.auth_strategy", "http_basic", "api.http_basic_auth_user_file", users)
	if got := r.status("/v1/introspection"); before == http.StatusUnauthorized || got != http.StatusUnauthorized {
		t.Errorf("not-reloaded: without a password %d before, %d now", before, got)
	}

	r.must("inspection.workers", "7", "inspection.processing.processing_hooks", "ramdisk_error,validate_interfaces")
	s := r.core.inspect.live.Now()
	if s.Config.Workers != 7 || len(s.Hooks) != 2 {
		t.Errorf("not-reloaded: %d workers, %d hooks", s.Config.Workers, len(s.Hooks))
	}

	var asked atomic.Int32
	ironic := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte("{}")) // who asked may have gone
	}))
	t.Cleanup(ironic.Close)
	r.must("ironic.endpoint", ironic.URL)
	if err := r.ironic.Ping(t.Context()); err != nil || asked.Load() == 0 {
		t.Errorf("not-reloaded: the new Ironic was asked %d times, %v", asked.Load(), err)
	}

	r.must("log.level", "debug", "log.format", "json")
	if got := r.log.Load(); got == nil || got.Level != "debug" || got.Format != "json" {
		t.Errorf("not-reloaded: the log is %+v", got)
	}
	r.must("doctor.dnsmasq_conf", "/elsewhere")
	looked := newExaminer(r.Peer).rules().Config.Doctor
	if got := looked.DnsmasqConf; !slices.Equal(got, []string{"/elsewhere"}) {
		t.Errorf("not-reloaded: doctor looks at %s", got)
	}
}

// A configuration that will not do changes nothing, not even the parts of it that
// would; what needs a restart is named until it is changed back.
func TestReloadIsWhole(t *testing.T) {
	r := newReloadable(t)
	hooks := r.core.inspect.live.Now().Hooks
	if _, err := r.set("inspection.workers", "9", "inspection.timeout", "nonsense"); err == nil ||
		r.conf.Current().Inspection.Workers == 9 {
		t.Errorf("a file with a mistake: %v", err)
	}
	if got := r.warns("config_refused"); !strings.Contains(got, "inspection.timeout") {
		t.Errorf("the status says %q", got)
	}
	// Each part of this is well-formed, and the last cannot be made.
	_, err := r.set("inspection.timeout", "300s", "api.auth_strategy", "http_basic", "api.http_basic_auth_user_file",
		"/nowhere/users")
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Code != api.CodeInvalid ||
		!strings.Contains(refused.Message, "/nowhere/users") {
		t.Errorf("a file that is not there: %v", err)
	}
	live := r.core.inspect.live.Now()
	if live.Config.Workers == 9 || live.Config.Timeout == 300*time.Second || r.conf.Current().Inspection.Workers == 9 ||
		&live.Hooks[0] != &hooks[0] {
		t.Errorf("half-applied: %d workers, timeout %v", live.Config.Workers, live.Config.Timeout)
	}
	got, err := r.set("api.auth_strategy", "noauth", "api.http_basic_auth_user_file", "", "raft.timing", "slow")
	if err != nil || !slices.Equal(got.Restart, []string{"raft.timing"}) ||
		!slices.Contains(got.Applied, "inspection.workers") {
		t.Errorf("applied %v, to restart for %v, %v", got.Applied, got.Restart, err)
	}
	if text := r.warns("restart_needed"); !strings.Contains(text, "raft.timing") || r.warns("config_refused") != "" {
		t.Errorf("the status says %q, %q", text, r.warns("config_refused"))
	}
	if got, err := r.set("raft.timing", "normal"); err != nil || len(got.Applied)+len(got.Restart) > 0 {
		t.Errorf("changed back: %+v, %v", got, err)
	}
	if text := r.warns("restart_needed"); text != "" {
		t.Errorf("changed back, and still %q", text)
	}
}

// TestAPeerKeepsItsName: no reload and no restart renames it, which a reload and the status say.
func TestAPeerKeepsItsName(t *testing.T) {
	r := newReloadable(t)
	if text := r.warns("useless_options"); text != "" {
		t.Errorf("name-is-kept: the name of the join: %q", text)
	}
	got, err := r.set("name", "rack4-h1")
	warned := strings.Join(got.Warnings, "\n")
	if err != nil || len(got.Restart)+len(got.Applied) > 0 || !strings.Contains(warned, "as h1") {
		t.Errorf("name-is-kept: the reload says %+v (%v)", got, err)
	}
	if text := r.warns("useless_options"); !strings.Contains(text, "as h1") || r.warns("restart_needed") != "" {
		t.Errorf("name-is-kept: the status says %q, and to restart for %q", text, r.warns("restart_needed"))
	}
	if got, err := r.set("name", "h1"); err != nil || strings.Contains(strings.Join(got.Warnings, "\n"), "as h1") {
		t.Errorf("name-is-kept: changed back: %+v (%v)", got, err)
	}
	if text := r.warns("useless_options"); text != "" {
		t.Errorf("name-is-kept: changed back, and still %q", text)
	}
}

// TestReloadTakesRewrittenFiles: what a file of an option holds counts from a reload on, or is refused
// with its lines, also where its path has not changed; what waits for a restart is named.
func TestReloadTakesRewrittenFiles(t *testing.T) {
	s := newStartable(t)
	s.o.Load = func() (config.Config, error) { return s.o.Config, nil }
	inspection := &s.o.Config.Inspection
	inspection.Processing.Hooks = append(slices.Clone(inspection.Processing.Hooks), "accelerators")
	devices := filepath.Join(t.TempDir(), "known.yaml")
	writeFiles(t, "", map[string]string{devices: "pci_devices: [{vendor_id: 10de, device_id: 1eb8}]\n"})
	inspection.HookOptions.KnownAccelerators = devices
	p := startToEnd(t, s)
	path := s.o.Config.Failover.FenceFile
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	reaches := func(node string) bool {
		return len(p.kube.failover.Fences.For(failover.Machine{Cluster: "prod", Node: node})) > 0
	}
	expect := func(what, refused string, applied []string, node string) {
		t.Helper()
		got, err := p.Admin().Configuration.Reload()
		if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
			t.Errorf("fence-file-reloaded: %s: %v, want %q", what, err, refused)
		}
		if !slices.Equal(got.Applied, applied) || len(got.Restart) > 0 {
			t.Errorf("fence-file-reloaded: %s: applied %v, to restart for %v, want %v", what, got.Applied, got.Restart, applied)
		}
		if reaches("w1") != (node == "w1") || reaches("w2") != (node == "w2") {
			t.Errorf("fence-file-reloaded: %s: the list in force reaches w1: %v, w2: %v", what, reaches("w1"), reaches("w2"))
		}
	}
	expect("as it was", "", []string{}, "w1")
	mended := strings.Replace(string(first), "{w1:", "{w2:", 1)
	warned := func() bool {
		p.texts.look(p.conf.Current())
		return slices.ContainsFunc(p.Status().Warnings, func(w api.Warning) bool {
			return w.Code == "reload_needed" && strings.Contains(w.Text, "failover.fence_file")
		})
	}
	if warned() {
		t.Error("file-unread: warned of before it was written")
	}
	writeFiles(t, "", map[string]string{path: mended})
	if !warned() {
		t.Error("file-unread: no warning of a list that is not in force")
	}
	if why := p.kube.failover.Unread(); !strings.Contains(why, "on host "+p.id.Name) ||
		!strings.Contains(why, "systemctl reload trivet") {
		t.Errorf("unread-fences: the leader uses what its file has no more: %q", why)
	}
	expect("mended", "", []string{"failover.fence_file"}, "w2")
	if warned() {
		t.Error("file-unread: warned of after it was read")
	}
	if why := p.kube.failover.Unread(); why != "" {
		t.Errorf("unread-fences: after it was read: %s", why)
	}
	expect("the same again", "", []string{}, "w2")
	writeFiles(t, "", map[string]string{path: "devices:\n- {name: bmc, typ: agent}\n"})
	expect("broken", path+":2: devices[bmc].type: is missing", nil, "w2")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect("gone", "failover.fence_file: open "+path, nil, "w2")
	writeFiles(t, "", map[string]string{path: mended})
	expect("back", "", []string{}, "w2")
	wantDevicesRead(t, p, devices)
	wantFencesWaitWithClusters(t, p, s, string(first))
}

// wantFencesWaitWithClusters changes the list of devices next to a kubeconfig that was rewritten, and, with that as it
// was before, next to a second cluster.
func wantFencesWaitWithClusters(t *testing.T, p *Peer, s *startable, first string) {
	t.Helper()
	kubeconfig := wantKubeconfigNamed(t, p, s.o.Config)
	path, wait := s.o.Config.Failover.FenceFile, []string{"failover.kubeconfigs", "failover.fence_file"}
	writeFiles(t, "", map[string]string{path: first})
	wantFencesWait(t, p, "a rewritten kubeconfig", append(slices.Clone(wait), "haconfig.kubeconfigs"))
	writeFiles(t, "", kubeconfig)
	list := &s.o.Config.Failover.Kubeconfigs
	*list = append(slices.Clone(*list), strings.Replace((*list)[0], "prod=", "stage=", 1))
	writeFiles(t, "", map[string]string{path: strings.Replace(first, "{w1:", "{stage/w1:", 1)})
	wantFencesWait(t, p, "a second cluster", wait)
}

// wantFencesWait reloads a list that reaches w1 no more: it waits for a restart, and w2 is reached until then.
func wantFencesWait(t *testing.T, p *Peer, next string, want []string) {
	t.Helper()
	got, err := p.Admin().Configuration.Reload()
	if err != nil || len(got.Applied) > 0 || !slices.Equal(got.Restart, want) {
		t.Errorf("fences-wait: next to %s: applied %v, to restart for %v, %v", next, got.Applied, got.Restart, err)
	}
	w2 := failover.Machine{Cluster: "prod", Node: "w2"}
	if len(p.kube.failover.Fences.For(w2)) == 0 {
		t.Errorf("fences-wait: next to %s the list in force is another", next)
	}
	p.texts.look(p.conf.Current())
	for _, w := range p.Status().Warnings {
		if w.Code == "reload_needed" || w.Code == "restart_needed" && !strings.Contains(w.Text, "failover.fence_file") {
			t.Errorf("fences-wait: next to %s: %+v", next, w)
		}
	}
}

// startToEnd starts a peer that is stopped at the end of the test.
func startToEnd(t *testing.T, s *startable) *Peer {
	t.Helper()
	p, err := New(t.Context(), s.o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testwait.Bound(testwait.Limit))
		defer cancel()
		if err := p.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

// wantDevicesRead changes the file of known accelerators, first to one with a mistake.
func wantDevicesRead(t *testing.T, p *Peer, path string) {
	t.Helper()
	const key = "inspection.accelerators.known_devices"
	writeFiles(t, "", map[string]string{path: "pci_devices: [{vendor_id: 10de}]\n"})
	if got, err := p.Admin().Configuration.Reload(); err == nil || !strings.Contains(err.Error(), key+": "+path) {
		t.Errorf("devices-reloaded: a mistake: %+v, %v, want %s refused", got, err, path)
	}
	writeFiles(t, "", map[string]string{path: "pci_devices: [{vendor_id: 10de, device_id: 2bb4}]\n"})
	if got, err := p.Admin().Configuration.Reload(); err != nil || !slices.Equal(got.Applied, []string{key}) {
		t.Errorf("devices-reloaded: mended: applied %v, %v, want %s", got.Applied, err, key)
	}
}

// wantKubeconfigNamed changes a kubeconfig, which is read at the start alone, and returns it as it was.
func wantKubeconfigNamed(t *testing.T, p *Peer, conf config.Config) map[string]string {
	t.Helper()
	_, kubeconfig, _ := strings.Cut(conf.Failover.Kubeconfigs[0], "=")
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, "", map[string]string{kubeconfig: string(text) + "\n"})
	got, err := p.Admin().Configuration.Reload()
	if want := []string{"failover.kubeconfigs", "haconfig.kubeconfigs"}; err != nil || !slices.Equal(got.Restart, want) {
		t.Errorf("fence-file-reloaded: a kubeconfig: to restart for %v, want %v, %v", got.Restart, want, err)
	}
	return map[string]string{kubeconfig: string(text)}
}

// Reloads, requests and status at once; the race detector looks on.
func TestReloadUnderLoad(t *testing.T) {
	r := newReloadable(t)
	var work sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					r.status("/v1/introspection")
					r.Status()
				}
			}
		})
	}
	for n := range 20 {
		healthy := "true"
		if n%2 == 0 {
			healthy = "false"
		}
		if _, err := r.set("api.healthcheck", healthy, "inspection.workers", []string{"1", "5"}[n%2], "ironic.timeout",
			[]string{"10s", "20s"}[n%2]); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	work.Wait()
}
