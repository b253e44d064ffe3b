//go:build e2e

package kubelab

import (
	"fmt"
	"net/http"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/testenv"
)

// Power is what is done to a kube node of the lab. When it returns, a prober
// meets what it says.
type Power string

// What can be done to a kube node.
const (
	// On boots it if it was off, and mends it otherwise.
	On Power = "on"
	// Off takes its power: it and its pods are dead, and it is silent.
	Off Power = "off"
	// Partition cuts its way to the API server; its pods and its kubelet go on.
	Partition Power = "partition"
	// Freeze makes its kubelet stand still; its pods run on.
	Freeze Power = "freeze"
	// NotReady makes it say that it is not ready.
	NotReady Power = "notready"
)

// Machine is what is physically true of a kube node.
type Machine struct {
	State   Power
	Address string // of its kubelet
}

// Violation is a moment in which two live kube nodes ran the same pod or wrote
// to the same volume.
type Violation struct {
	Time       time.Time
	Kind, What string
	Nodes      [2]string
}

// call asks the lab's control port.
func (k *Cluster) call(method, path string, into any) error {
	err := httpapi.Call(&http.Client{Timeout: 30 * time.Second}, k.control, method, path, nil, nil, into)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

func (k *Cluster) must(method, path string, into any) {
	k.t.Helper()
	testenv.Must(k.t, k.call(method, path, into))
}

// Nodes returns all kube nodes.
func (k *Cluster) Nodes() (nodes map[string]Machine) {
	k.t.Helper()
	k.must(http.MethodGet, "/nodes", &nodes)
	return nodes
}

// Power does something to a kube node.
func (k *Cluster) Power(node string, to Power) {
	k.t.Helper()
	testenv.Must(k.t, k.TryPower(node, to))
}

// TryPower is Power for goroutines that are not the test's.
func (k *Cluster) TryPower(node string, to Power) error {
	return k.call(http.MethodPost, "/nodes/"+node+"/"+string(to), nil)
}

// Component kills, starts, pauses or resumes one: etcd, kube-apiserver,
// kube-controller-manager or kube-scheduler.
func (k *Cluster) Component(name, action string) {
	k.t.Helper()
	testenv.Must(k.t, k.TryComponent(name, action))
}

// TryComponent is Component for goroutines that are not the test's.
func (k *Cluster) TryComponent(name, action string) error {
	return k.call(http.MethodPost, "/components/"+name+"/"+action, nil)
}

// Violations returns all moments of split brain so far. A test of failover ends
// with none.
func (k *Cluster) Violations() (all []Violation) {
	k.t.Helper()
	k.must(http.MethodGet, "/violations", &all)
	return all
}
