//go:build e2e

package labtest

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
)

// kubeDevices are the fence devices of every machine of kubelab, in their order.
var kubeDevices = []string{"first", "second", "third"}

// kubeMood is how a fence device behaves.
type kubeMood string

// The moods.
const (
	kubeObeys kubeMood = ""
	kubeHangs kubeMood = "hangs" // until it is killed
	kubeLacks kubeMood = "lacks" // has no such action
	kubeLies  kubeMood = "lies"  // does nothing, and says that the machine is off
)

// kubeFence are fence devices that switch kube nodes of a lab.
type kubeFence struct {
	t   testing.TB
	dir string
}

// kubeCall is a line of what the devices did.
type kubeCall struct {
	At                            time.Time
	Device, Action, Machine, Came string
}

// fenceScript is the program of the devices.
//
//go:embed testdata/kubefence/fence
var fenceScript string

// newKubeFence makes the devices.
func newKubeFence(k *Kube) *kubeFence {
	k.t.Helper()
	f := &kubeFence{t: k.t, dir: k.t.TempDir()}
	control := strings.TrimPrefix(k.control, "http://")
	writeProgram(f.t, f.path("fence"), strings.Replace(fenceScript, "dir=DIR control=CONTROL", fmt.Sprintf("dir=%s control=%s", f.dir, control), 1))
	f.write("calls", "")
	var text strings.Builder
	text.WriteString("devices:\n")
	for _, name := range kubeDevices {
		fmt.Fprintf(&text, "  - name: %s\n    type: agent\n    program: %s\n    options: {device: %s}\n    timeout: 8s\n    retries: 0\n    nodes:\n", name, f.path("fence"), name)
		for node := range k.Nodes() {
			fmt.Fprintf(&text, "      %s: {machine: %s}\n", node, node)
		}
	}
	f.write("fence.yaml", text.String())
	return f
}

// For returns the same devices for a subtest.
func (f *kubeFence) For(t testing.TB) *kubeFence { return &kubeFence{t: t, dir: f.dir} }

// File is the fence.yaml that lists the devices.
func (f *kubeFence) File() string { return f.path("fence.yaml") }

func (f *kubeFence) path(name string) string { return filepath.Join(f.dir, name) }

func (f *kubeFence) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// behave puts a device into a mood.
func (f *kubeFence) behave(device string, mood kubeMood) {
	f.t.Helper()
	f.write("mood."+device, string(mood))
}

// calls returns what the devices did, but for asking.
func (f *kubeFence) calls(t testing.TB) (all []kubeCall) {
	t.Helper()
	text, err := os.ReadFile(f.path("calls"))
	if err != nil {
		t.Fatal(err)
	}
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
			all = append(all, kubeCall{time.Unix(s, u*1000), words[1], words[2], words[3], words[4]})
		}
	}
	return all
}
