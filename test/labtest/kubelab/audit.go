//go:build e2e

package kubelab

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/kubeclient"
	"github.com/trivet-ha/trivet/test/testenv"
)

// user is whom the manifest gives its rights.
const user = "system:serviceaccount:trivet:trivet-failover"

// Audit is the API server's own record of what failover wrote.
type Audit struct{ file string }

// auditPolicy keeps what failover writes, with what became of it.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  users: [USER]
  verbs: [patch, update, delete, deletecollection]
- level: None
`

// NewAudit returns a record, and the flags with which a lab keeps it.
func NewAudit(t testing.TB) (a *Audit, flags []string) {
	t.Helper()
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	testenv.Must(t, os.WriteFile(policy, []byte(strings.ReplaceAll(auditPolicy, "USER", user)), 0o600))
	a = &Audit{file: filepath.Join(dir, "audit.log")}
	return a, []string{"--apiserver-arg=--audit-policy-file=" + policy, "--apiserver-arg=--audit-log-path=" + a.file}
}

// Deed is one request that the API server has answered.
type Deed struct {
	Began time.Time // the request came
	Verb  string
	Kind  string // pods, nodes
	Name  string // with the namespace, if it has one
	UID   string
	Node  string // of the pod, or the node itself
	Code  int
	// Of a Node as it was after it.
	Token, Version uint64
	Cordoned, Out  bool
	// Bound says that a deletion names the UID and the version.
	Bound bool
}

// auditEvent is what is read of a line.
type auditEvent struct {
	Verb                     string
	RequestReceivedTimestamp time.Time
	ObjectRef                struct{ Resource, Namespace, Name string }
	ResponseStatus           struct{ Code int }
	RequestObject            struct {
		Preconditions struct{ UID, ResourceVersion string }
	}
	ResponseObject struct {
		Metadata struct {
			UID, ResourceVersion string
			Annotations          map[string]string
		}
		Spec struct {
			NodeName string
			Taints   []failover.Taint
		}
	}
}

// Size is where the record ends now.
func (a *Audit) Size() int64 {
	info, err := os.Stat(a.file)
	if err != nil {
		return 0 // nothing was written yet
	}
	return info.Size()
}

// Deeds returns what was done since the record had a size, in the order of their
// beginning.
func (a *Audit) Deeds(t testing.TB, from int64) (all []Deed) {
	t.Helper()
	text, err := os.ReadFile(a.file)
	if os.IsNotExist(err) {
		return nil
	}
	testenv.Must(t, err)
	for line := range strings.Lines(string(text[from:])) {
		var e auditEvent
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("audit log: %v\n%s", err, line)
		}
		if e.ObjectRef.Resource == "nodes" || e.ObjectRef.Resource == "pods" {
			all = append(all, e.deed(t))
		}
	}
	slices.SortStableFunc(all,
		func(a, b Deed) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Version, b.Version)) })
	return all
}

func (e auditEvent) deed(t testing.TB) Deed {
	t.Helper()
	d := Deed{
		Began: e.RequestReceivedTimestamp, Verb: e.Verb, Kind: e.ObjectRef.Resource, Name: e.ObjectRef.Name,
		Code:  e.ResponseStatus.Code,
		Bound: e.RequestObject.Preconditions.UID != "" && e.RequestObject.Preconditions.ResourceVersion != "",
	}
	if d.Code >= 300 {
		return d
	}
	o := e.ResponseObject
	d.UID, d.Node = o.Metadata.UID, o.Spec.NodeName
	if d.Kind == "pods" {
		d.Name = e.ObjectRef.Namespace + "/" + d.Name
		return d
	}
	d.Node = d.Name
	var err error
	if d.Version, err = strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64); err != nil {
		t.Fatalf("resourceVersion of %s: %v", d.Name, err)
	}
	if text := o.Metadata.Annotations[kubeclient.AnnotationToken]; text != "" {
		if d.Token, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("token of %s: %v", d.Name, err)
		}
	}
	for _, taint := range o.Spec.Taints {
		d.Cordoned = d.Cordoned || taint.Key == failover.TaintCordon
		d.Out = d.Out || taint.Key == failover.TaintOutOfService
	}
	return d
}

// Faults says what was done in the wrong order, twice, or under an older token.
// Power is what the devices did. Of a Node that is gone nothing can be tainted.
func Faults(deeds []Deed, power []FenceCall, gone ...string) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	tokens, out, deleted := make(map[string]uint64), make(map[string]bool), make(map[string]bool)
	for _, d := range deeds {
		switch {
		case d.Code >= 300: // nothing was changed
		case d.Kind == "nodes":
			if d.Token < tokens[d.Name] {
				fault("token %d was written over %d on %s", d.Token, tokens[d.Name], d.Name)
			}
			tokens[d.Name] = d.Token
			if d.Out && !out[d.Name] && !isOffBefore(power, d.Name, d.Began) {
				fault("%s was tainted out of service at %v while no device had switched it off", d.Name, d.Began)
			}
			out[d.Name] = d.Out
		case d.Verb == "deletecollection":
			fault("a whole collection of pods was deleted")
		default:
			if !d.Bound {
				fault("pod %s was deleted without its UID and version", d.Name)
			}
			if deleted[d.UID] {
				fault("pod %s (%s) was deleted twice", d.Name, d.UID)
			}
			deleted[d.UID] = true
			if !out[d.Node] && !slices.Contains(gone, d.Node) {
				fault("pod %s was deleted while %q was not tainted out of service", d.Name, d.Node)
			}
			if !isOffBefore(power, d.Node, d.Began) {
				fault("pod %s was deleted at %v while no device had switched %q off", d.Name, d.Began, d.Node)
			}
		}
	}
	return faults
}

// isOffBefore reports whether the newest that a device did to a machine before a
// time was to switch it off.
func isOffBefore(power []FenceCall, machine string, at time.Time) (off bool) {
	for _, c := range power {
		if c.Machine == machine && c.Came == "obeyed" && c.At.Before(at) {
			off = c.Action == "off"
		}
	}
	return off
}
