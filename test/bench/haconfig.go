package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/haconfig"
)

// reviewTimeout is how long it may take until the peer can ask the API server.
const reviewTimeout = 20 * time.Second

func haconfigArea() Area {
	return Area{
		Name: "haconfig",
		About: fmt.Sprintf("one `trivet serve`, an API server in memory with %d namespaces, %d reviews a second over TLS",
			reviewNamespaces, reviewRate),
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
	b.Report.Add(name, median(cpu), "µs", AtMost(150),
		fmt.Sprintf("processor time of a Deployment of 3.7 KB that gets everything: %.0f; %.0f ns until it is done; %s", cpu,
			wall, busy))
	return nil
}

// reviews sends reviews to a peer, and in turns with it to a bare server: what that
// takes is the machine's share, and the generator's.
func reviews(ctx context.Context, b *Bench) (err error) {
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
	if err := awaitWebhook(ctx, address); err != nil {
		return fmt.Errorf("%w; see %s", err, p.log)
	}
	bare, floor, err := startBare(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endBare(bare)) }()
	peer, least := newReviewer(address, p.serving.Process.Pid), newReviewer(floor, bare.Process.Pid)
	defer func() { err = errors.Join(err, peer.close(), least.close()) }()
	b.Say("haconfig: %d reviews a second", reviewRate)
	machine, began := othersUsed(), time.Now()
	for range reviewTurns {
		if err := errors.Join(least.turn(ctx), peer.turn(ctx)); err != nil {
			return err
		}
	}
	others := (othersUsed() - machine - peer.used - least.used).Seconds() /
		(time.Since(began).Seconds() * float64(runtime.NumCPU()))
	b.Report.Add("haconfig.review_p99_ratio", peer.ms(0.99)/least.ms(0.99), "x", AtMost(1.3),
		fmt.Sprintf("%v. In turns with it, a bare server: %v. Others took %.0f%% of the machine", peer, least,
			max(others, 0)*100))
	return nil
}

// reviewPeer starts a cluster of one peer, and returns where its webhook is.
func reviewPeer(ctx context.Context, b *Bench, dir, api string) (*process, string, error) {
	binary, err := b.Binary(ctx)
	if err != nil {
		return nil, "", err
	}
	kubeconfig, err := writeKubeconfig(dir, api)
	if err != nil {
		return nil, "", err
	}
	p, err := newProcess(binary, dir, "peer1", map[string]string{
		"haconfig.kubeconfigs": "bench=" + kubeconfig, "haconfig.listen": anyPort, "haconfig.via": "endpoints",
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
	return p, p.more["haconfig.listen"], p.awaitReady(ctx, 0)
}

// writeKubeconfig writes how an API server at an address is asked.
func writeKubeconfig(dir, api string) (kubeconfig string, err error) {
	kubeconfig = filepath.Join(dir, "kubeconfig")
	text := strings.ReplaceAll(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "http://API"}}], users: [{name: a, user: {}}]}`, "API", api)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		return "", err
	}
	return kubeconfig, nil
}

func awaitWebhook(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	return until(ctx, "the webhook", func() bool {
		conn, err := dialReview(address)
		if err != nil {
			return false
		}
		code, _, err := conn.do(http.MethodGet, haconfig.PathHealthz, nil)
		return errors.Join(err, conn.close()) == nil && code == http.StatusOK
	})
}

// reviewed is a Deployment of a usual size: two containers with forty variables.
func reviewed() string {
	var env []string
	for i := range 20 {
		env = append(env, fmt.Sprintf(`{"name":"VARIABLE_%d","value":"a value of some length, such as a URL"}`, i))
	}
	container := `{"name":"NAME","image":"registry.example.org/a/b:v1.2.3","env":[` + strings.Join(env, ",") +
		`],"resources":{"requests":{"cpu":"100m","memory":"128Mi"}}}`
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"demo","labels":{"` + haconfig.DefaultPrefix + `type":"server"}},"spec":{"replicas":1,
"selector":{"matchLabels":{"app":"demo"}},"template":{"metadata":{"labels":{"app":"demo"}},"spec":{"containers":[` +
		strings.Replace(container, "NAME", "a", 1) + "," + strings.Replace(container, "NAME", "b", 1) + `]}}}}`
}

// kubeInMemory answers as an API server does about namespaces, autoscalers and kube
// nodes; there is nothing else.
func kubeInMemory(w http.ResponseWriter, r *http.Request) {
	object := map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound",
		"code": http.StatusNotFound}
	code := http.StatusNotFound
	switch name, is := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/"); {
	case is:
		code, object = http.StatusOK,
			map[string]any{"apiVersion": "v1", "kind": "Namespace",
				"metadata": map[string]any{"name": name, "annotations": map[string]string{
					haconfig.DefaultPrefix + "failure-tolerance-type": "zone", haconfig.DefaultPrefix + "zones": "a,b,c",
				}}}
	case r.URL.Path == "/api/v1/nodes":
		code, object = http.StatusOK,
			map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
				"items": []any{map[string]any{}, map[string]any{}}}
	case strings.HasSuffix(r.URL.Path, "/horizontalpodautoscalers"):
		code, object = http.StatusOK,
			map[string]any{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscalerList", "items": []any{}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // a struct of texts; the connection's end shows in the next read
}
