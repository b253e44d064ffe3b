package fence

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trivet-ha/trivet/failover"
)

// ironicNodes is an Ironic with several nodes, by name and UUID, that obeys at once.
type ironicNodes struct {
	refs map[string]string // to UUIDs

	mu    sync.Mutex // guards the rest
	asked []string
	off   []string // UUIDs that were switched off
}

func (f *ironicNodes) FindNode(_ context.Context, ref string) (string, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, ref)
	uuid, ok := f.refs[ref]
	return uuid, ok, nil
}

func (f *ironicNodes) PowerState(_ context.Context, uuid string) (string, string, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Contains(f.off, uuid) {
		return ironicOff, "", "", nil
	}
	return ironicOn, "", "", nil
}

func (f *ironicNodes) SetPower(_ context.Context, uuid, state string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state == ironicOff && !slices.Contains(f.off, uuid) {
		f.off = append(f.off, uuid)
	}
	return nil
}

// unlisted is the device of a file that names no nodes, for so many clusters.
func unlisted(t *testing.T, ironic Ironic, clusters ...string) *List {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fence.yaml")
	if err := os.WriteFile(file, []byte("devices:\n  - {name: bmc, type: ironic, retries: 0}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := defaults()
	o.Clusters, o.Ironic, o.Logger = clusters, ironic, slog.New(slog.DiscardHandler)
	l, err := Open(file, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

const (
	kubeUUID    = "4C4C4544-0051-3010-8052-B4C04F564432" // as a kubelet tells it
	ironicUUID  = "4c4c4544-0051-3010-8052-b4c04f564432"
	swappedUUID = "44454c4c-5100-1030-8052-b4c04f564432"
	vendorUUID  = "03000200-0400-0500-0006-000700080009" // of many boards
)

// A kube node's name means a machine within its cluster alone: with two clusters
// Ironic's node of that name may be the healthy machine of the other one.
func TestIronicIsNotAskedByANameOfTwoClusters(t *testing.T) {
	const other = "the worker-1 of another cluster"
	for name, c := range map[string]struct {
		clusters []string
		refs     map[string]string
		uuid     string // that the kubelet tells
		shared   string
		off      string // Ironic's node that is switched off; "" for none
		says     string // the error, or what was not compared
	}{
		"two clusters, by name alone": {
			[]string{"prod", "lab"}, map[string]string{"worker-1": other}, kubeUUID, "", "",
			"Ironic has no node with the machine's UUID (" + ironicUUID +
				"), and the name of the kube node alone does not say which machine it is",
		},
		"two clusters, no UUID": {[]string{"prod", "lab"}, map[string]string{"worker-1": other}, "", "", "",
			"(the kube node tells none)"},
		"two clusters, a placeholder": {
			[]string{"prod", "lab"}, map[string]string{"worker-1": other, vendorUUID: other}, vendorUUID, "", "",
			"a placeholder that many boards share",
		},
		"two clusters, a shared UUID": {
			[]string{"prod", "lab"}, map[string]string{"worker-1": other, ironicUUID: other}, kubeUUID, "lab/worker-7", "",
			"the kube node tells the same UUID as lab/worker-7",
		},
		"two clusters, the UUID": {[]string{"prod", "lab"},
			map[string]string{"worker-1": other, ironicUUID: "u1"}, kubeUUID, "", "u1", ""},
		"two clusters, the other byte order": {[]string{"prod", "lab"},
			map[string]string{"worker-1": other, swappedUUID: "u1"}, kubeUUID, "", "u1", ""},
		"one cluster, by name alone": {
			[]string{"prod"}, map[string]string{"worker-1": "u1"}, kubeUUID, "", "u1",
			"no UUID was compared: Ironic's node was found by the kube node's name alone",
		},
		"one cluster, no UUID": {
			[]string{"prod"}, map[string]string{"worker-1": "u1"}, "", "", "u1",
			"no UUID was compared: the kube node tells none, and Ironic's node was found by the kube node's name alone",
		},
		"one cluster, both": {[]string{"prod"}, map[string]string{"worker-1": "u1", ironicUUID: "u1"}, kubeUUID, "",
			"u1", ""},
		"one cluster, they differ": {[]string{"prod"}, map[string]string{"worker-1": "u1", swappedUUID: "u2"}, kubeUUID, "",
			"", "Ironic has node u2 with its UUID and node u1 with its name"},
		"one cluster, a placeholder": {
			[]string{"prod"}, map[string]string{"worker-1": "u1", vendorUUID: other}, vendorUUID, "", "u1",
			"a placeholder that many boards share, and Ironic's node was found by the kube node's name alone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			ironic := &ironicNodes{refs: c.refs}
			m := failover.Machine{Cluster: "prod", Node: "worker-1", SystemUUID: c.uuid, SharedWith: c.shared}
			d := unlisted(t, ironic, c.clusters...).For(m)[0]
			said := ""
			if err := d.Off(t.Context(), m); err != nil {
				said = err.Error()
			} else if said = failover.Uncompared(d, m); said != "" && c.says == "" {
				t.Errorf("ironic-name: it says %q of a UUID that was compared", said)
			}
			if got := strings.Join(ironic.off, " "); got != c.off {
				t.Errorf("ironic-name: Ironic switched off %q, want %q", got, c.off)
			}
			if !strings.Contains(said, c.says) {
				t.Errorf("ironic-name: it says %q, want %q", said, c.says)
			}
			asking := m
			asking.AskOnly = true
			if _, err := d.Power(t.Context(), asking); (err != nil) != (c.off == "") {
				t.Errorf("ironic-name: asked only, it says %v", err)
			}
		})
	}
}

// What the newest look found counts: a node in Ironic may get another name or UUID.
func TestIronicSaysHowItFoundTheNode(t *testing.T) {
	ironic := &ironicNodes{refs: map[string]string{"worker-1": "u1", ironicUUID: "u1"}}
	m := failover.Machine{Cluster: "prod", Node: "worker-1", SystemUUID: kubeUUID, AskOnly: true}
	d := unlisted(t, ironic, "prod").For(m)[0]
	for _, by := range []struct{ uuid, says string }{{ironicUUID, ""}, {"", "name alone"}, {ironicUUID, ""}} {
		if delete(ironic.refs, ironicUUID); by.uuid != "" {
			ironic.refs[by.uuid] = "u1"
		}
		if _, err := d.Power(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if said := failover.Uncompared(d, m); !strings.HasSuffix(said, by.says) || by.says == "" && said != "" {
			t.Errorf("ironic-name: by %q it says %q", by.uuid, said)
		}
	}
}

// Two kube nodes whose names in the file mean one node in Ironic: none is switched off,
// until Ironic or the file says otherwise.
func TestTwoNamesOfOneNodeInIronic(t *testing.T) {
	ironic := &ironicNodes{refs: map[string]string{"rack-7": "u1", "52:54:00:00:00:01": "u1", "rack-8": "u2"}}
	d := &device{name: "bmc", kind: "ironic", method: newThroughIronic(ironic), nodes: map[string]address{
		"worker-1": {text: "rack-7"}, "worker-2": {text: "52:54:00:00:00:01"}, "worker-3": {text: "rack-8"},
	}}
	off := func(node string) string {
		if err := d.Off(t.Context(), failover.Machine{Cluster: "prod", Node: node}); err != nil {
			return err.Error()
		}
		return ""
	}
	if said := off("worker-1"); said != "" {
		t.Errorf("ironic-name: worker-1: %s", said)
	}
	if said := off("worker-2"); !strings.Contains(said,
		"Ironic's node u1 is that of kube node prod/worker-1, too; write its own node") {
		t.Errorf("ironic-name: worker-2: it says %q", said)
	}
	if said := off("worker-1"); !strings.Contains(said, "that of kube node prod/worker-2, too") {
		t.Errorf("ironic-name: worker-1 again: it says %q", said)
	}
	if said := off("worker-3"); said != "" {
		t.Errorf("ironic-name: worker-3: %s", said)
	}
	ironic.refs["rack-7"], ironic.refs["rack-8"] = "u2", "u1" // the two swap their names
	ironic.refs["52:54:00:00:00:01"] = "u3"
	for _, node := range []string{"worker-3", "worker-1", "worker-2"} {
		if said := off(node); said != "" {
			t.Errorf("ironic-name: after the names were changed: %s: %s", node, said)
		}
	}
}
