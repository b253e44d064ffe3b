//go:build e2e

package labtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// KubePower is what is done to a kube node of the lab. When it returns, a prober
// meets what it says.
type KubePower string

// What can be done to a kube node.
const (
	// KubeOn boots it if it was off, and mends it otherwise.
	KubeOn KubePower = "on"
	// KubeOff takes its power: it and its pods are dead, and it is silent.
	KubeOff KubePower = "off"
	// KubePartition cuts its way to the API server; its pods and its kubelet go on.
	KubePartition KubePower = "partition"
	// KubeFreeze makes its kubelet stand still; its pods run on.
	KubeFreeze KubePower = "freeze"
	// KubeNotReady makes it say that it is not ready.
	KubeNotReady KubePower = "notready"
)

// KubeMachine is what is physically true of a kube node.
type KubeMachine struct {
	State   KubePower
	Boot    int    // counts its boots
	Address string // of its kubelet
	Pods    []struct {
		UID, Pod string
		Volumes  []string
	}
}

// KubeViolation is a moment in which two live kube nodes ran the same pod or wrote
// to the same volume.
type KubeViolation struct {
	Time       time.Time
	Kind, What string
	Nodes      [2]string
}

// maxControl bounds an answer of the control port, in bytes.
const maxControl = 4 << 20

// call asks the lab's control port.
func (k *Kube) call(method, path string, into any) error {
	req, err := http.NewRequest(method, k.control+path, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxControl))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, strings.TrimSpace(string(body)))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

func (k *Kube) must(method, path string, into any) {
	k.t.Helper()
	if err := k.call(method, path, into); err != nil {
		k.t.Fatal(err)
	}
}

// Nodes returns all kube nodes.
func (k *Kube) Nodes() (nodes map[string]KubeMachine) {
	k.t.Helper()
	k.must(http.MethodGet, "/nodes", &nodes)
	return nodes
}

// Power does something to a kube node.
func (k *Kube) Power(node string, to KubePower) {
	k.t.Helper()
	if err := k.TryPower(node, to); err != nil {
		k.t.Fatal(err)
	}
}

// TryPower is Power for goroutines that are not the test's.
func (k *Kube) TryPower(node string, to KubePower) error {
	return k.call(http.MethodPost, "/nodes/"+node+"/"+string(to), nil)
}

// Component kills, starts, pauses or resumes one: etcd, kube-apiserver,
// kube-controller-manager or kube-scheduler.
func (k *Kube) Component(name, action string) {
	k.t.Helper()
	k.must(http.MethodPost, "/components/"+name+"/"+action, nil)
}

// Components returns the state of each.
func (k *Kube) Components() (states map[string]string) {
	k.t.Helper()
	k.must(http.MethodGet, "/components", &states)
	return states
}

// Violations returns all moments of split brain so far. A test of failover ends
// with none.
func (k *Kube) Violations() (all []KubeViolation) {
	k.t.Helper()
	k.must(http.MethodGet, "/violations", &all)
	return all
}

// ForgetViolations begins anew.
func (k *Kube) ForgetViolations() {
	k.t.Helper()
	k.must(http.MethodDelete, "/violations", nil)
}
