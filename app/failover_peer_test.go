package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/test/msgcheck"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// apiServer is as much of an API server as a leader asks for while nothing
// happens: one healthy kube node, w1, with three pods.
func apiServer(t *testing.T) *httptest.Server {
	t.Helper()
	return apiServerOf(t, corev1.NodeSystemInfo{BootID: "b1"})
}

// apiServerOf is the same, and w1 tells so much of its machine.
func apiServerOf(t *testing.T, machine corev1.NodeSystemInfo) *httptest.Server {
	t.Helper()
	meta := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }
	w1 := corev1.Node{TypeMeta: meta("Node"),
		ObjectMeta: metav1.ObjectMeta{Name: "w1", UID: types.UID("u1"), ResourceVersion: "7",
			CreationTimestamp: metav1.Unix(1e9, 0)},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			NodeInfo: machine}}
	pod := func(name, owner string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("p-" + name),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "x", Controller: new(true)}}},
			Spec: corev1.PodSpec{NodeName: "w1"}}
	}
	list := metav1.ListMeta{ResourceVersion: "7"}
	empty := func(kind, version string) any {
		return map[string]any{"kind": kind, "apiVersion": version, "metadata": map[string]string{"resourceVersion": "7"},
			"items": []any{}}
	}
	answers := map[string]any{
		"/api/v1/nodes":    corev1.NodeList{TypeMeta: meta("NodeList"), ListMeta: list, Items: []corev1.Node{w1}},
		"/api/v1/nodes/w1": w1,
		"/api/v1/pods": corev1.PodList{TypeMeta: meta("PodList"), ListMeta: list,
			Items: []corev1.Pod{pod("db-0", "StatefulSet"), pod("proxy", "DaemonSet")}},
		"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases": empty("LeaseList", "coordination.k8s.io/v1"),
		"/apis/storage.k8s.io/v1/volumeattachments":                      empty("VolumeAttachmentList", "storage.k8s.io/v1"),
		"/apis/policy/v1/poddisruptionbudgets":                           empty("PodDisruptionBudgetList", "policy/v1"),
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := answers[r.URL.Path]
		switch {
		case r.URL.Path == "/readyz":
			_, _ = w.Write([]byte("ok")) // who asked may have gone
			return
		case r.URL.Query().Get("watch") != "": // nothing happens
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		case !known:
			w.WriteHeader(http.StatusNotFound)
			answer = metav1.Status{TypeMeta: meta("Status"), Status: metav1.StatusFailure, Code: http.StatusNotFound,
				Reason: metav1.StatusReasonNotFound}
		default:
			w.Header().Set("Content-Type", "application/json")
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(srv.Close)
	return srv
}

// bmc is a fence agent over a file: the machine is on until it is switched off.
const bmc = `#!/bin/sh
state=STATE
while read -r line; do case $line in action=*) action=${line#action=} ;; esac; done
case $action in
off) echo off > $state ;;
on) rm -f $state ;;
status) if [ -e $state ]; then echo "Status: OFF"; exit 2; fi; echo "Status: ON" ;;
esac
`

// kubePeer is a cluster of one peer that looks after the kube nodes of srv. more
// are keys of the configuration and their values.
func kubePeer(t *testing.T, srv *httptest.Server, more ...string) *Peer {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	agent := write("fence_file", strings.ReplaceAll(bmc, "STATE", filepath.Join(dir, "off")), 0o700)
	devices := write("fence.yaml",
		"devices:\n- {name: bmc, type: agent, program: "+agent+", nodes: {w1: {ip: 192.0.2.1}}}\n", 0o600)
	kubeconfig := write("kubeconfig", fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: %q}}], users: [{name: a, user: {}}]}`, srv.URL), 0o600)
	flags := map[string]string{
		"name": "h1", "data_dir": filepath.Join(dir, "d"), "socket": filepath.Join(dir, "s"), "api.listen": "127.0.0.1:0",
		"cluster.listen": "127.0.0.1:0", "gossip.listen": testenv.FreePort(t),
		"cluster.advertise": "127.0.0.1:7350", "gossip.advertise": "127.0.0.1:7351", "firewall.driver": "noop",
		"failover.mode": "safe", "failover.kubeconfigs": "prod=" + kubeconfig, "failover.fence_file": devices,
		"failover.retries": "0",
	}
	for i := 0; i+1 < len(more); i += 2 {
		flags[more[i]] = more[i+1]
	}
	conf, err := config.Load(config.Sources{Flags: flags})
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
	peer, err := New(t.Context(),
		Options{Config: conf, Dir: data, Binary: "test", Logger: msgcheck.Logger(t), Wall: time.Now, Random: rand.Reader,
			Exit: func(code int, why error) { t.Errorf("exit %d: %v", code, why) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testwait.Bound(testwait.Limit))
		defer cancel()
		if err := errors.Join(peer.Stop(ctx), data.Close()); err != nil {
			t.Error(err)
		}
	})
	return peer
}

// judged waits until the leader has judged w1.
func judged(t *testing.T, peer *Peer) admin.Failover {
	t.Helper()
	var last admin.Failover
	testwait.Within(t, testwait.Limit, "the leader judges w1", func() (err error) {
		if last, err = peer.Admin().Kube.Here.Failover(t.Context()); err == nil && len(last.Nodes) == 1 &&
			last.Clusters[0].Synced && last.Clusters[0].Problem == "" && last.Nodes[0].UID == "u1" {
			if _, recorded := peer.core.Store.View().KubeNode("prod", "u1"); recorded {
				return nil
			}
		}
		return fmt.Errorf("%+v, %w", last, cmp.Or(err, errors.New("not judged")))
	})
	return last
}

// A peer on a kube node that the Node knows by another address is found by what both
// tell of the machine, and that machine is left alone.
func TestPeerIsFoundOnItsKubeNode(t *testing.T) {
	here := readMachine("/", os.Getenv)
	byMachine := "machine ID"
	if here.MachineID == "" { // as in a container: what neither tells is not the same
		byMachine = ""
	}
	if here.BootID == "" {
		t.Fatal("this host tells no boot ID, which every kernel of Linux has")
	}
	for name, c := range map[string]struct {
		node corev1.NodeSystemInfo
		want string // what is the same; "" if nothing is
	}{
		"boot ID":    {corev1.NodeSystemInfo{BootID: here.BootID}, "boot ID"},
		"machine ID": {corev1.NodeSystemInfo{BootID: "of the last boot", MachineID: here.MachineID}, byMachine},
		"neither":    {corev1.NodeSystemInfo{BootID: "another", MachineID: "another"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			peer := kubePeer(t, apiServerOf(t, c.node))
			seen := judged(t, peer)
			simulated, err := peer.Admin().Kube.Here.Simulate(t.Context(), "prod", "w1", "")
			if err != nil {
				t.Fatal(err)
			}
			rail, places := "peer h1, which leads, runs on it (it tells the same "+c.want+")",
				[]admin.PeerPlace{{Peer: "h1", Node: "prod/w1", By: c.want}}
			if c.want == "" {
				places = nil
			}
			if slices.Contains(simulated.Why, rail) != (c.want != "") || !slices.Equal(seen.Peers, places) {
				t.Errorf("placement: peers %+v, and of w1 it says %q", seen.Peers, simulated.Why)
			}
		})
	}
}
