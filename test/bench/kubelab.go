package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/trivet-ha/trivet/failover/kube"
)

// kubeEnv names the directory of kubelab: a control plane of Kubernetes in one
// binary, with kubelets that can lose their power. The end-to-end tests use the
// same, and keep its binary where this looks for it.
const kubeEnv = "TRIVET_E2E_KUBE"

const (
	kubeBuildLimit = 40 * time.Minute // on a fresh machine; it is kept
	kubeReadyLimit = 3 * time.Minute
	kubeCallLimit  = 30 * time.Second
	// maxKubeAnswer bounds an answer, in bytes: 3,000 pods have 8 MB.
	maxKubeAnswer = 64 << 20
)

// kubeLab is a cluster of Kubernetes on loopback, with kube nodes node-1 and so on.
type kubeLab struct {
	dir, program string
	control      string // URL of the port that switches machines
	url          string // of the API server
	admin        *http.Client
	cmd          *exec.Cmd
	ended        chan struct{} // closed when cmd has
}

// newKubeLab builds the lab if need be, and starts one. Its timings are Kubernetes'
// own unless a flag says otherwise.
func newKubeLab(ctx context.Context, dir string, flags ...string) (k *kubeLab, err error) {
	source := os.Getenv(kubeEnv)
	if source == "" {
		return nil, errCannot("it needs a cluster of Kubernetes: name the directory of kubelab in " + kubeEnv)
	}
	program, err := buildKubeLab(ctx, source)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "lab.out"))
	if err != nil {
		return nil, fmt.Errorf("log of kubelab: %w", err)
	}
	defer log.Close() // the child has its own
	k = &kubeLab{dir: dir, program: program, ended: make(chan struct{})}
	k.cmd = exec.Command(program, append([]string{"up", dir}, flags...)...)
	k.cmd.Stdout, k.cmd.Stderr = log, log
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := k.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start kubelab: %w", err)
	}
	go func() {
		defer close(k.ended)
		_ = k.cmd.Wait() // who needs it asks for ended
	}()
	if err := k.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, k.end())
	}
	return k, nil
}

// buildKubeLab returns the lab's program. Its own script decides whether there is
// anything to build.
func buildKubeLab(ctx context.Context, source string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeBuildLimit)
	defer cancel()
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find where kubelab is kept: %w", err)
	}
	build := exec.CommandContext(ctx, filepath.Join(source, "start.sh"), "build")
	build.Env = append(os.Environ(), "KUBELAB_CACHE="+filepath.Join(base, "trivet-test", "kubelab"))
	var said bytes.Buffer
	build.Stderr = &said
	out, err := build.Output()
	if err != nil {
		return "", fmt.Errorf("build kubelab: %w\n%s", err, said.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

func (k *kubeLab) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kubeReadyLimit)
	defer cancel()
	err := until(ctx, "Kubernetes", func() bool {
		select {
		case <-k.ended:
			cancel()
		default:
		}
		_, err := os.Stat(filepath.Join(k.dir, "ready")) // written last
		return err == nil
	})
	if err != nil {
		said, _ := os.ReadFile(filepath.Join(k.dir, "lab.out")) // it only explains the error
		return fmt.Errorf("%w\n%s", err, said)
	}
	control, err := os.ReadFile(filepath.Join(k.dir, "control-url"))
	if err != nil {
		return fmt.Errorf("find kubelab's port: %w", err)
	}
	k.control = strings.TrimSpace(string(control))
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(k.dir, "kubeconfig"))
	if err != nil {
		return fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	if k.admin, err = rest.HTTPClientFor(config); err != nil {
		return fmt.Errorf("make the administrator's client: %w", err)
	}
	k.url = strings.TrimSuffix(config.Host, "/")
	return nil
}

// end stops the lab; its components die with it, whatever happens.
func (k *kubeLab) end() error {
	if err := k.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end kubelab: %w", err)
	}
	select {
	case <-k.ended:
		return nil
	case <-time.After(exitLimit):
		return errors.Join(errors.New("kubelab did not end in time"), k.cmd.Process.Kill())
	}
}

// power switches a machine, which has happened when this returns.
func (k *kubeLab) power(ctx context.Context, node, action string) error {
	return k.ask(ctx, http.DefaultClient, http.MethodPost, k.control+"/nodes/"+node+"/"+action, "", nil, nil)
}

// violations counts the moments in which two machines ran one pod, or wrote to one
// volume.
func (k *kubeLab) violations(ctx context.Context) (int, error) {
	var all []json.RawMessage
	err := k.ask(ctx, http.DefaultClient, http.MethodGet, k.control+"/violations", "", nil, &all)
	return len(all), err
}

// Content types of what the API server is sent.
const (
	typeJSON  = "application/json"
	typeMerge = "application/merge-patch+json"
)

// do asks the API server as its administrator.
func (k *kubeLab) do(ctx context.Context, method, path, kind string, in, out any) error {
	return k.ask(ctx, k.admin, method, k.url+path, kind, in, out)
}

func (k *kubeLab) ask(ctx context.Context, client *http.Client, method, url, kind string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, kubeCallLimit)
	defer cancel()
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("encode a request: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	req.Header.Set("Content-Type", kind)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxKubeAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, req.URL.Path, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s: %s", method, req.URL.Path, resp.Status, text)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// trusted applies the manifest of the product, and returns the kubeconfig of whom
// it is for.
func (k *kubeLab) trusted(ctx context.Context) (string, error) {
	const namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: trivet}}\n---\n"
	if err := k.apply(ctx, namespace+kube.Manifest(kube.ManifestOptions{})); err != nil {
		return "", err
	}
	path := filepath.Join(k.dir, "as-trivet")
	user := exec.CommandContext(ctx, k.program, "user", k.dir, path, "system:serviceaccount:trivet:trivet-failover",
		"system:serviceaccounts", "system:serviceaccounts:trivet", "system:authenticated")
	if out, err := user.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make a user of Kubernetes: %w\n%s", err, out)
	}
	return path, nil
}

// apply gives the cluster objects in YAML.
func (k *kubeLab) apply(ctx context.Context, text string) error {
	cmd := exec.CommandContext(ctx, k.program, "kubectl", "--kubeconfig="+filepath.Join(k.dir, "kubeconfig"), "apply",
		"-f", "-")
	cmd.Stdin = strings.NewReader(text)
	cmd.Env = append(os.Environ(), "HOME="+k.dir) // where it keeps its caches
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl apply: %w\n%s", err, out)
	}
	return nil
}

// kubeObject is what is looked at of a pod or a Node.
type kubeObject struct {
	Metadata struct {
		Name, UID, DeletionTimestamp string
	}
	Spec struct {
		NodeName string
	}
	Status struct {
		Conditions []struct{ Type, Status string }
	}
	seen time.Time // when this version of it was told
}

// ready reports whether it is, and is to stay.
func (o kubeObject) ready() bool {
	for _, c := range o.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True" && o.Metadata.DeletionTimestamp == ""
		}
	}
	return false
}

// kubeView holds the newest version of some objects, by name. Its methods may be
// called at once.
type kubeView struct {
	mu      sync.Mutex
	objects map[string]kubeObject
	stopped error // nothing more is told
}

// get returns an object as it was last told; ok is false if there is none.
func (v *kubeView) get(name string) (o kubeObject, ok bool, stopped error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	o, ok = v.objects[name]
	return o, ok, v.stopped
}

// follow keeps a view of what a path lists until ctx ends. It ends by itself after
// half an hour, which is longer than anything takes that is measured with it.
func (k *kubeLab) follow(ctx context.Context, path string) (*kubeView, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url+path+"?watch=1", nil)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	resp, err := k.admin.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("watch %s: %s", path, resp.Status), resp.Body.Close())
	}
	v := &kubeView{objects: map[string]kubeObject{}}
	go func() {
		defer resp.Body.Close()
		events := json.NewDecoder(resp.Body)
		for {
			var event struct {
				Type   string
				Object kubeObject
			}
			err := events.Decode(&event)
			event.Object.seen = time.Now()
			v.mu.Lock()
			switch name := event.Object.Metadata.Name; {
			case err != nil:
				v.stopped = fmt.Errorf("watch %s: %w", path, err)
			case event.Type == "DELETED":
				delete(v.objects, name)
			default:
				v.objects[name] = event.Object
			}
			v.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return v, nil
}
