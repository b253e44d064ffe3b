package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/haconfig"
)

const (
	reviewRate       = 200 // a second
	reviewTime       = 20 * time.Second
	reviewWarm       = 2 * time.Second // before it counts: connections, and what is read first
	reviewNamespaces = 20
	reviewLimit      = 10 * time.Second // of the registration
	reviewPatience   = 20 * time.Second // until the peer can ask the API server
)

func haconfigArea() Area {
	return Area{
		Name:    "haconfig",
		About:   fmt.Sprintf("one `trivet serve`, an API server in memory with %d namespaces, %d reviews a second over TLS", reviewNamespaces, reviewRate),
		Measure: measureHAConfig,
	}
}

func measureHAConfig(ctx context.Context, b *Bench) error {
	if err := mutation(ctx, b); err != nil {
		return err
	}
	return reviews(ctx, b)
}

// mutation takes what one decision costs, by the benchmark of haconfig.
func mutation(ctx context.Context, b *Bench) error {
	const name = "haconfig.mutation_us"
	all, busy, err := (&gateSite{bench: b}).benchmarks(ctx, "./haconfig", "^BenchmarkMutate$", "5000x")
	if err != nil {
		b.Report.Skip(name, "µs", AtMost(150), err.Error())
		return nil
	}
	cpu, wall := all["Mutate cpu-us/op"], all["Mutate ns/op"]
	if len(cpu) == 0 || len(wall) == 0 {
		return errors.New("go test ./haconfig has no result of BenchmarkMutate")
	}
	b.Report.Add(name, median(cpu), "µs", AtMost(150), fmt.Sprintf("processor time of a Deployment of 3.7 KB that gets everything: %.0f; %.0f ns until it is done; %s", cpu, wall, busy))
	return nil
}

// reviews sends reviews at a steady rate, however long the answers take, and counts
// each from when it was due.
func reviews(ctx context.Context, b *Bench) (err error) {
	const name = "haconfig.review_p99_ms"
	dir, err := b.Folder("haconfig")
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := newStub(ln, http.HandlerFunc(kubeInMemory))
	defer func() { err = errors.Join(err, server.close()) }()
	p, address, err := reviewPeer(ctx, b, dir, ln.Addr().String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	// Who it is does not matter here: the CA is in the log of the peer alone.
	client := &http.Client{Timeout: reviewLimit, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 64, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	if err := awaitWebhook(ctx, client, address); err != nil {
		return fmt.Errorf("%w; see %s", err, p.log)
	}
	b.Say("haconfig: %d reviews a second", reviewRate)
	took, failed, err := stream(ctx, client, address)
	if err != nil {
		return err
	}
	raw := took.String()
	if len(failed) > 0 {
		raw += fmt.Sprintf("; %d were not answered with a patch and count as %v, the first: %v", len(failed), reviewLimit, failed[0])
	}
	b.Report.Add(name, float64(took.Quantile(0.99).Microseconds())/1000, "ms", AtMost(5), raw)
	return nil
}

// reviewPeer starts a cluster of one peer, and returns where its webhook is.
func reviewPeer(ctx context.Context, b *Bench, dir, api string) (*process, string, error) {
	binary, err := b.Binary(ctx)
	if err != nil {
		return nil, "", err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	text := strings.ReplaceAll(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "http://API"}}], users: [{name: a, user: {}}]}`, "API", api)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, "", err
	}
	p, err := newProcess(binary, dir, "peer1", map[string]string{"haconfig.kubeconfig": kubeconfig, "haconfig.listen": ports[0],
		"haconfig.default_not_ready_toleration_seconds": "60", "haconfig.default_unreachable_toleration_seconds": "60"})
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, formLimit)
	defer cancel()
	if _, err := p.command(ctx, "init", "-q"); err != nil {
		return nil, "", err
	}
	if err := p.serve(); err != nil {
		return nil, "", err
	}
	return p, ports[0], p.awaitReady(ctx, 0)
}

func awaitWebhook(ctx context.Context, client *http.Client, address string) error {
	ctx, cancel := context.WithTimeout(ctx, reviewPatience)
	defer cancel()
	return until(ctx, "the webhook", func() bool {
		resp, err := client.Get("https://" + address + haconfig.PathHealthz)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// stream sends the reviews, and returns how long those took that count, and why some
// were not answered as they should be.
func stream(ctx context.Context, client *http.Client, address string) (Sample, []error, error) {
	n, warm := reviewRate*int((reviewWarm+reviewTime)/time.Second), reviewRate*int(reviewWarm/time.Second)
	took, said := make(Sample, n), make([]error, n)
	object := reviewed()
	begin := time.Now()
	var asking sync.WaitGroup
	for i := range n {
		due := begin.Add(time.Duration(i) * time.Second / reviewRate)
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
			asking.Wait()
			return nil, nil, context.Cause(ctx)
		}
		asking.Go(func() {
			said[i] = review(ctx, client, address, object, i)
			if took[i] = time.Since(due); said[i] != nil {
				took[i] = reviewLimit
			}
		})
	}
	asking.Wait()
	return took[warm:], slices.DeleteFunc(said[warm:], func(err error) bool { return err == nil }), nil
}

// review sends one and looks whether it was answered with a patch.
func review(ctx context.Context, client *http.Client, address, object string, i int) error {
	body := fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u%d","kind":{"group":"apps","version":"v1","kind":"Deployment"},
"namespace":"ns-%d","name":"demo","operation":"CREATE","object":%s}}`, i, i%reviewNamespaces, object)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+haconfig.PathMutate, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxWebAnswer))
	if err != nil {
		return err
	}
	if !bytes.Contains(text, []byte(`"patchType":"JSONPatch"`)) {
		return fmt.Errorf("review %d: %s: %s", i, resp.Status, text)
	}
	return nil
}

// reviewed is a Deployment of a usual size: two containers with forty variables.
func reviewed() string {
	var env []string
	for i := range 20 {
		env = append(env, fmt.Sprintf(`{"name":"VARIABLE_%d","value":"a value of some length, such as a URL"}`, i))
	}
	container := `{"name":"NAME","image":"registry.example.org/a/b:v1.2.3","env":[` + strings.Join(env, ",") + `],"resources":{"requests":{"cpu":"100m","memory":"128Mi"}}}`
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"demo","labels":{"` + haconfig.DefaultPrefix + `type":"server"}},"spec":{"replicas":1,
"selector":{"matchLabels":{"app":"demo"}},"template":{"metadata":{"labels":{"app":"demo"}},"spec":{"containers":[` +
		strings.Replace(container, "NAME", "a", 1) + "," + strings.Replace(container, "NAME", "b", 1) + `]}}}}`
}

// kubeInMemory answers as an API server does about namespaces, autoscalers and kube
// nodes; there is nothing else.
func kubeInMemory(w http.ResponseWriter, r *http.Request) {
	object := map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": http.StatusNotFound}
	code := http.StatusNotFound
	switch name, is := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/"); {
	case is:
		code, object = http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "annotations": map[string]string{
			haconfig.DefaultPrefix + "failure-tolerance-type": "zone", haconfig.DefaultPrefix + "zones": "a,b,c",
		}}}
	case r.URL.Path == "/api/v1/nodes":
		code, object = http.StatusOK, map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "items": []any{map[string]any{}, map[string]any{}}}
	case strings.HasSuffix(r.URL.Path, "/horizontalpodautoscalers"):
		code, object = http.StatusOK, map[string]any{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscalerList", "items": []any{}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // a struct of texts; the connection's end shows in the next read
}
