//go:build e2e

package kubelab

import (
	"cmp"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// Devices are the fence devices of every machine of kubelab, in their order.
var Devices = []string{"first", "second", "third"}

// Mood is how a fence device behaves.
type Mood string

// The moods.
const (
	Obeys Mood = ""
	Hangs Mood = "hangs" // until it is killed
	Lacks Mood = "lacks" // has no such action
	Lies  Mood = "lies"  // does nothing, and says that the machine is off
)

// Fence are fence devices that switch kube nodes of a lab.
type Fence struct {
	t   testing.TB
	dir string
}

// FenceCall is a line of what the devices did.
type FenceCall struct {
	At                            time.Time
	Device, Action, Machine, Came string
}

// fenceScript is the program of the devices.
//
//go:embed testdata/fence
var fenceScript string

// NewFence makes the devices.
func NewFence(k *Cluster) *Fence {
	k.t.Helper()
	f := &Fence{t: k.t, dir: k.t.TempDir()}
	program.Write(f.t, f.path("fence"),
		strings.Replace(fenceScript, "dir=DIR control=CONTROL", fmt.Sprintf("dir=%s control=%s", f.dir, k.control), 1))
	testenv.PutFile(f.t, f.dir, "calls", "")
	var text strings.Builder
	text.WriteString("devices:\n")
	for _, name := range Devices {
		fmt.Fprintf(&text,
			"  - name: %s\n    type: agent\n    program: %s\n    options: {device: %s}\n    timeout: 8s\n    retries: 0\n    nodes:\n",
			name, f.path("fence"), name)
		for node := range k.Nodes() {
			fmt.Fprintf(&text, "      %s: {machine: %s}\n", node, node)
		}
	}
	testenv.PutFile(f.t, f.dir, "fence.yaml", text.String())
	return f
}

// For returns the same devices for a subtest.
func (f *Fence) For(t testing.TB) *Fence { return &Fence{t: t, dir: f.dir} }

// File is the fence.yaml that lists the devices.
func (f *Fence) File() string { return f.path("fence.yaml") }

func (f *Fence) path(name string) string { return filepath.Join(f.dir, name) }

// Behave puts a device into a mood.
func (f *Fence) Behave(device string, mood Mood) {
	f.t.Helper()
	testenv.PutFile(f.t, f.dir, "mood."+device, string(mood))
}

// Calls returns what the devices did, but for asking.
func (f *Fence) Calls(t testing.TB) (all []FenceCall) {
	t.Helper()
	text, err := os.ReadFile(f.path("calls"))
	testenv.Must(t, err)
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) != 5 {
			continue // it is being written
		}
		seconds, micros, _ := strings.Cut(words[0], ".")
		s, err1 := strconv.ParseInt(seconds, 10, 64)
		u, err2 := strconv.ParseInt(micros, 10, 64)
		if err := cmp.Or(err1, err2); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if words[2] != "status" {
			all = append(all, FenceCall{time.Unix(s, u*1000), words[1], words[2], words[3], words[4]})
		}
	}
	return all
}
