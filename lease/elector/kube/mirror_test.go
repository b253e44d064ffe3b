package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/internal/kubeclient"
	"github.com/trivet-ha/trivet/lease/elector"
)

// server keeps objects as an API server does: versions, merge patches, conflicts.
type server struct {
	mu      sync.Mutex
	objects map[string]map[string]any
	version int
	between func() // called once, after a read
	writes  int
	down    int // so many questions are refused
}

const (
	leasePath     = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/x"
	endpointsPath = "/api/v1/namespaces/ns/endpoints/x"
)

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down > 0 {
		s.down--
		status(w, http.StatusServiceUnavailable, "ServiceUnavailable")
		return
	}
	var body map[string]any
	path := r.URL.Path
	if r.Method != http.MethodGet {
		s.writes++
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			status(w, http.StatusBadRequest, "BadRequest")
			return
		}
	}
	if r.Method == http.MethodPost {
		path += "/x"
		if _, there := s.objects[path]; there {
			status(w, http.StatusConflict, "AlreadyExists")
			return
		}
		body["metadata"].(map[string]any)["uid"] = "1"
		s.objects[path] = map[string]any{}
	}
	there, ok := s.objects[path]
	if !ok {
		status(w, http.StatusNotFound, "NotFound")
		return
	}
	if r.Method == http.MethodPatch {
		if at := body["metadata"].(map[string]any)["resourceVersion"]; at != nil &&
			at != there["metadata"].(map[string]any)["resourceVersion"] {
			status(w, http.StatusConflict, "Conflict")
			return
		}
	}
	if body != nil {
		merge(there, body)
		s.version++
		there["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(s.version)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(there) // who asked may have gone
	if s.between != nil && r.Method == http.MethodGet {
		between := s.between
		s.between = nil
		between()
	}
}

func merge(there, patch map[string]any) {
	for key, value := range patch {
		inner, is := value.(map[string]any)
		if old, was := there[key].(map[string]any); is && was {
			merge(old, inner)
			continue
		}
		there[key] = value
	}
}

func status(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`,
		code, reason, reason)
}

// site is a mirror of one server, and its clocks.
type site struct {
	*testing.T
	*Mirror
	*server
	now  time.Duration
	wall time.Time
}

func openOn(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, server: &server{objects: map[string]map[string]any{}}, now: time.Minute,
		wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	srv := httptest.NewServer(s.server)
	t.Cleanup(srv.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := strings.Replace(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "URL"}}], users: [{name: a, user: {}}]}`, "URL", srv.URL, 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Open(Options{Kubeconfig: file, Namespace: "ns", Name: "x", Lease: true, Endpoints: true,
		TTL: 4500 * time.Millisecond,
		Now: func() time.Duration { return s.now }, Wall: func() time.Time { return s.wall },
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	s.Mirror = m
	return s
}

func (s *site) put(w elector.Claim) error {
	w.Asked, w.Until = s.now-500*time.Millisecond, s.now+3*time.Second
	return s.Write(s.Context(), w)
}

// at reads a value of an object, by its keys.
func (s *site) at(path string, keys ...string) any {
	var value any = s.objects[path]
	for _, key := range keys {
		m, _ := value.(map[string]any)
		value = m[key]
	}
	return value
}

func (s *site) is(want any, path string, keys ...string) {
	s.Helper()
	if got := s.at(path, keys...); got != want {
		s.Errorf("%s %v: %v, want %v", path, keys, got, want)
	}
}

func (s *site) record() (r oldRecord) {
	s.Helper()
	text, _ := s.at(endpointsPath, "metadata", "annotations", AnnotationLeader).(string)
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		s.Fatal(err)
	}
	return r
}

// TestMirrorShowsTheHolder in both objects, and what is there besides stays.
func TestMirrorShowsTheHolder(t *testing.T) {
	s := openOn(t)
	s.objects[endpointsPath] = map[string]any{"metadata": map[string]any{"uid": "2", "resourceVersion": "0"},
		"subsets": "ours"}
	if err := s.put(elector.Claim{Name: "one", Token: 7}); err != nil {
		t.Fatal(err)
	}
	s.is("one", leasePath, "spec", "holderIdentity")
	s.is(5.0, leasePath, "spec", "leaseDurationSeconds")
	s.is(0.0, leasePath, "spec", "leaseTransitions")
	s.is("2026-01-02T03:04:04.500000Z", leasePath, "spec", "renewTime")
	s.is("7", leasePath, "metadata", "annotations", kubeclient.AnnotationToken)
	s.is("7", endpointsPath, "metadata", "annotations", kubeclient.AnnotationToken)
	s.is("ours", endpointsPath, "subsets")
	if r := s.record(); r.Holder != "one" || r.Transitions != 0 || r.Duration != 5 {
		t.Errorf("%+v", r)
	}
	s.wall = s.wall.Add(10 * time.Second)
	if err := s.put(elector.Claim{Name: "one", Token: 7}); err != nil {
		t.Fatal(err)
	}
	s.is("2026-01-02T03:04:04.500000Z", leasePath, "spec", "acquireTime")
	s.is("2026-01-02T03:04:14.500000Z", leasePath, "spec", "renewTime")
	if err := s.put(elector.Claim{Name: "two", Token: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	s.is("two", leasePath, "spec", "holderIdentity")
	s.is(1.0, leasePath, "spec", "leaseTransitions") // not the token
	s.is(strconv.Itoa(1<<40), leasePath, "metadata", "annotations", kubeclient.AnnotationToken)
	s.is("2026-01-02T03:04:14.500000Z", leasePath, "spec", "acquireTime")
	if r := s.record(); r.Holder != "two" || r.Transitions != 1 || !r.Acquired.Equal(r.Renewed) {
		t.Errorf("%+v", r)
	}
}

// TestMirrorNeverReplacesALaterLeader, whether it has written before or meanwhile.
func TestMirrorNeverReplacesALaterLeader(t *testing.T) {
	s := openOn(t)
	if err := s.put(elector.Claim{Name: "two", Token: 8}); err != nil {
		t.Fatal(err)
	}
	if err := s.put(elector.Claim{Name: "one", Token: 7}); !errors.Is(err, ErrNewer) {
		t.Errorf("mirror-token: %v, want %v", err, ErrNewer)
	}
	s.between = func() {
		for _, o := range s.objects {
			meta := o["metadata"].(map[string]any)
			meta["resourceVersion"], meta["annotations"].(map[string]any)[kubeclient.AnnotationToken] = "99", "10"
		}
	}
	if err := s.put(elector.Claim{Name: "three", Token: 9}); err == nil {
		t.Error("mirror-version: it wrote over what was written since it read")
	}
	s.is("two", leasePath, "spec", "holderIdentity")
	s.is("10", leasePath, "metadata", "annotations", kubeclient.AnnotationToken)
	s.objects[leasePath]["metadata"].(map[string]any)["annotations"].(map[string]any)[kubeclient.AnnotationToken] = "x"
	if err := s.put(elector.Claim{Name: "four", Token: 11}); err == nil ||
		!strings.Contains(err.Error(), kubeclient.AnnotationToken) {
		t.Errorf("mirror-token: %v", err)
	}
}

// TestMirrorIsSilentWhenItsTimeIsOver: nothing is sent after the deadline.
func TestMirrorIsSilentWhenItsTimeIsOver(t *testing.T) {
	s := openOn(t)
	if err := s.Write(t.Context(),
		elector.Claim{Name: "one", Token: 7, Asked: s.now - 3*time.Second, Until: s.now}); err == nil || s.writes != 0 {
		t.Errorf("mirror-deadline: %v, %d writes", err, s.writes)
	}
}

// TestMirrorSaysOnceThatItFailsAndOnceThatItWorks, however many writes fail between.
func TestMirrorSaysOnceThatItFailsAndOnceThatItWorks(t *testing.T) {
	s := openOn(t)
	var said bytes.Buffer // Run alone writes into it, and has ended before it is read
	s.o.Logger, s.o.TTL = slog.New(slog.NewTextHandler(&said, nil)), 3*time.Millisecond
	s.down = 6 // two objects each time: three times it fails
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	s.Mirror.Run(ctx, func() elector.Claim {
		if asked++; asked == 8 {
			cancel()
			return elector.Claim{}
		}
		return elector.Claim{Name: "one", Token: 7, Asked: s.now, Until: s.now + time.Minute}
	})
	fails, works := strings.Count(said.String(), "level=WARN"), strings.Count(said.String(), "level=INFO")
	if fails != 1 || works != 1 ||
		strings.Index(said.String(), "level=INFO") < strings.Index(said.String(), "level=WARN") {
		t.Errorf("it said:\n%s", &said)
	}
}
