//go:build e2e

// Package kubelab runs real Kubernetes clusters for tests, whose kube nodes can lose
// their power, and keeps what failover did to one: by the API server's audit log and
// by the fence devices.
package kubelab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/failover/kube"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/labtest/wiretap"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// sourceEnv names the directory of what the lab is built from: a real Kubernetes
// control plane and etcd in one binary, with kubelets that can lose their power and a
// witness of what they run. Its start.sh builds it, ten minutes on a fresh machine.
const sourceEnv = "TRIVET_E2E_KUBE"

// Limits of a lab of Kubernetes on a machine with two cores that does other things
// too.
const (
	buildLimit = 40 * time.Minute
	// ReadyLimit is what a cluster may take to be ready, 10 s on an idle machine.
	ReadyLimit = 3 * time.Minute
	// Limit is what anything else may take.
	Limit = 90 * time.Second
)

// Cluster is a Kubernetes cluster on loopback. Its methods are for the goroutine of
// the test, but those of its control port (Nodes, Power, Component, Violations).
type Cluster struct {
	t       testing.TB
	dir     string
	program string
	control string // host:port of its control port
	proc    *program.Process
}

// Start builds the lab if need be and starts one for this test, with the flags
// of its command up: three kube nodes node-1 to node-3 unless they say otherwise.
// It is skipped where there is none; see testenv.Missing.
func Start(t testing.TB, flags ...string) *Cluster {
	t.Helper()
	built := Build(t)
	dir, err := os.MkdirTemp("", "trivet-kube-")
	testenv.Must(t, err)
	k := &Cluster{t: t, dir: dir, program: built}
	t.Cleanup(k.close)
	k.start(flags)
	return k
}

// For returns the same cluster for a subtest.
func (k *Cluster) For(t testing.TB) *Cluster {
	same := *k
	same.t = t
	return &same
}

// Build builds the lab's program unless it was built before, and returns its path.
// The test is skipped where there is none; see testenv.Missing.
func Build(t testing.TB) string {
	t.Helper()
	source := os.Getenv(sourceEnv)
	if source == "" {
		testenv.Missing(t, "the test needs a Kubernetes control plane: set %s to the directory of kubelab", sourceEnv)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = t.TempDir()
	}
	cache := filepath.Join(base, "trivet-test", "kubelab")
	testenv.Must(t, os.MkdirAll(cache, 0o755))
	defer program.Lock(t, filepath.Join(cache, "lock"))()
	cmd := exec.Command(filepath.Join(source, "start.sh"), "build")
	cmd.Env = append(os.Environ(), "KUBELAB_CACHE="+cache)
	var said, log strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &log
	p, err := program.Start(cmd)
	if err != nil {
		t.Fatalf("build kubelab: %v", err)
	}
	if err := p.Wait(buildLimit); err != nil || p.Code != 0 {
		_ = p.End(syscall.SIGKILL, 10*time.Second) // the error is reported below
		t.Fatalf("build kubelab: exit code %d (%v)\n%s", p.Code, err, program.Tail(log.String(), 20))
	}
	return strings.TrimSpace(said.String())
}

func (k *Cluster) path(name string) string { return filepath.Join(k.dir, name) }

func (k *Cluster) start(flags []string) {
	k.t.Helper()
	up := exec.Command(k.program, append([]string{"up", k.dir}, flags...)...)
	k.proc = program.StartLogged(k.t, up, k.path("lab.log"))
	testwait.Within(k.t, ReadyLimit, "Kubernetes is ready", func() error {
		if !k.proc.Running() {
			k.t.Fatalf("kubelab exited with %d:\n%s", k.proc.Code, k.logs())
		}
		_, err := os.Stat(k.path("ready")) // written last
		return err
	})
	k.control = strings.TrimPrefix(strings.TrimSpace(testenv.GetFile(k.t, k.dir, "control-url")), "http://")
}

// close stops the lab. Its components end with it, whatever happens.
func (k *Cluster) close() {
	if k.proc != nil {
		if err := k.proc.End(syscall.SIGTERM, 30*time.Second); err != nil {
			k.t.Errorf("end kubelab: %v", err)
		}
	}
	if k.t.Failed() {
		k.t.Logf("--- kubelab wrote (end of it):\n%s", k.logs())
	}
	if err := os.RemoveAll(k.dir); err != nil {
		k.t.Errorf("clean up: %v", err)
	}
}

func (k *Cluster) logs() string {
	text, err := os.ReadFile(k.path("lab.log"))
	if err != nil {
		return err.Error()
	}
	return program.Tail(string(text), 30)
}

// Kubeconfig is the administrator's.
func (k *Cluster) Kubeconfig() string { return k.path("kubeconfig") }

// User makes a kubeconfig for a user, such as system:serviceaccount:ns:name of
// the group system:serviceaccounts.
func (k *Cluster) User(name string, groups ...string) string {
	k.t.Helper()
	file := k.path("as-" + strings.NewReplacer(":", "-", "/", "-").Replace(name))
	out, err := exec.Command(k.program, append([]string{"user", k.dir, file, name}, groups...)...).CombinedOutput()
	if err != nil {
		k.t.Fatalf("make user %s: %v\n%s", name, err, out)
	}
	return file
}

// Way opens a way of its own to the API server for who has a kubeconfig, and returns that of the way.
func (k *Cluster) Way(kubeconfig string) (way *wiretap.Way, its string) {
	k.t.Helper()
	server, text := regexp.MustCompile(`https://(127\.0\.0\.1:\d+)`), testenv.GetFile(k.t, "", kubeconfig)
	found := server.FindStringSubmatch(text)
	if found == nil {
		k.t.Fatalf("%s names no server", kubeconfig)
	}
	way = wiretap.NewWay(k.t, func() string { return found[1] })
	testenv.PutFile(k.t, "", kubeconfig+"-way", server.ReplaceAllString(text, "https://"+way.Addr))
	return way, kubeconfig + "-way"
}

// Trusted applies the manifest and makes the kubeconfig of whom it is for.
func (k *Cluster) Trusted() string {
	k.t.Helper()
	k.Grant(kube.Manifest(kube.ManifestOptions{}))
	return k.User(user, "system:serviceaccounts", "system:serviceaccounts:trivet", "system:authenticated")
}

// Try runs kubectl as administrator with a standard input.
func (k *Cluster) Try(input string, words ...string) (string, error) {
	cmd := exec.Command(k.program,
		append([]string{"kubectl", "--kubeconfig=" + k.Kubeconfig(), "--request-timeout=20s"}, words...)...)
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = append(os.Environ(), "HOME="+k.dir) // where it keeps its caches
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(words, " "), err, out)
	}
	return string(out), err
}

// Kubectl is Try of a command that has to succeed.
func (k *Cluster) Kubectl(words ...string) string {
	k.t.Helper()
	out, err := k.Try("", words...)
	testenv.Must(k.t, err)
	return out
}

// Apply gives the cluster objects in YAML.
func (k *Cluster) Apply(text string) {
	k.t.Helper()
	if _, err := k.Try(text, "apply", "-f", "-"); err != nil {
		k.t.Fatal(err)
	}
}

// Grant applies a manifest of trivet's, which has no Namespace.
func (k *Cluster) Grant(manifest string) {
	k.t.Helper()
	k.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: trivet}}\n---\n" + manifest)
}

// Get asks for a JSON path of objects.
func (k *Cluster) Get(path string, words ...string) string {
	k.t.Helper()
	return k.Kubectl(append(append([]string{"get"}, words...), "-o", "jsonpath="+path)...)
}

// Await waits until a JSON path of objects is a text.
func (k *Cluster) Await(what, text, path string, words ...string) {
	k.t.Helper()
	testwait.Within(k.t, Limit, what, func() error {
		if got := k.Get(path, words...); got != text {
			return fmt.Errorf("%q, want %q", got, text)
		}
		return nil
	})
}

// StatefulSet makes one in the namespace default, each of whose pods has a volume
// of its own that one node alone may write.
func (k *Cluster) StatefulSet(name string, replicas int) {
	k.t.Helper()
	k.workload("StatefulSet", name, replicas, `
  serviceName: NAME
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`)
}

// Deployment makes one in the namespace default.
func (k *Cluster) Deployment(name string, replicas int) {
	k.t.Helper()
	k.workload("Deployment", name, replicas, "")
}

// workload makes pods that end at once, and waits until all of them run.
func (k *Cluster) workload(kind, name string, replicas int, more string) {
	k.t.Helper()
	mounts := ""
	if kind == "StatefulSet" {
		mounts = ", volumeMounts: [{name: data, mountPath: /data}]"
	}
	k.Apply(strings.NewReplacer("NAME", name, "KIND", kind, "REPLICAS", fmt.Sprint(replicas), "MOUNTS", mounts).Replace(`
apiVersion: apps/v1
kind: KIND
metadata: {name: NAME}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: NAME}}` + more + `
  template:
    metadata: {labels: {app: NAME}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: none.example.org/none:1MOUNTS}]
`))
	testwait.Within(k.t, Limit, fmt.Sprintf("%d pods of %s run", replicas, name), func() error {
		if n := len(k.Where(name)); n != replicas {
			return fmt.Errorf("%d do", n)
		}
		return nil
	})
}

// Where returns on which kube nodes the running pods of a workload are, by name. A
// pod that is being deleted runs no longer.
func (k *Cluster) Where(app string) map[string]string {
	k.t.Helper()
	where := map[string]string{}
	out := k.Get(
		`{range .items[*]}{.metadata.name} {.spec.nodeName} {.status.phase} {.metadata.deletionTimestamp}{"\n"}{end}`, "pods",
		"-l", "app="+app)
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 3 && f[2] == "Running" {
			where[f[0]] = f[1]
		}
	}
	return where
}
