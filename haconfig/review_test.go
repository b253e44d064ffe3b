package haconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// site answers as told.
type site struct {
	around Surroundings
	err    error
	wait   chan struct{} // if set, until it is closed
	panics bool
	source netip.Prefix // of the last review that failed by err
}

// Surroundings implements Cluster.
func (s *site) Surroundings(ctx context.Context, source netip.Prefix, _ string) (Surroundings, error) {
	if s.panics {
		panic("out of order")
	}
	if s.wait != nil {
		select {
		case <-s.wait:
		case <-ctx.Done():
			return Surroundings{}, context.Cause(ctx)
		}
	}
	if s.err != nil {
		s.source = source
	}
	return s.around, s.err
}

// Ready implements Cluster.
func (s *site) Ready() error { return s.err }

// handler serves a site, and counts results.
func handler(s *site, c Conventions) (*Handler, map[string]int) {
	results := map[string]int{}
	var counting sync.Mutex
	return NewHandler(HandlerOptions{Clusters: []Served{{"here", s, c}}, Timeout: time.Second,
		Observe: func(_, result string, _ time.Duration) { counting.Lock(); defer counting.Unlock(); results[result]++ },
		Logger:  slog.New(slog.DiscardHandler)}), results
}

// reviewOf is a review of a version about an object.
func reviewOf(version, kind, raw string) string {
	group := "apps"
	if kind == kindAutoscaler.Kind {
		group = kindAutoscaler.Group
	}
	return fmt.Sprintf(
		`{"apiVersion":"admission.k8s.io/%s","kind":"AdmissionReview","request":{"uid":"u1","kind":{"group":%q,"version":"v1","kind":%q},"namespace":"ns1","name":"demo","operation":"CREATE","object":%s}}`,
		version, group, kind, raw)
}

// post sends a body to the handler.
func post(h http.Handler, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, PathMutate, strings.NewReader(body)))
	return w
}

// answered is the response in an answer.
func answered(t *testing.T, w *httptest.ResponseRecorder) *admissionv1.AdmissionResponse {
	t.Helper()
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil || w.Code != http.StatusOK || review.Response == nil ||
		review.Response.UID != "u1" || review.Request != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return review.Response
}

// TestHandlerVectors sends every vector as a review and compares answer and code.
func TestHandlerVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.ID, func(t *testing.T) {
			c, o, around := v.input()
			var unread error
			if v.Cluster.NamespaceMissing {
				unread = errors.New(`namespaces "ns1" not found`)
			}
			h, _ := handler(&site{}, c)
			asked := &admissionRequest{UID: "u1", Name: o.Name, Namespace: v.Request.Namespace}
			asked.Kind.Group, asked.Kind.Version, asked.Kind.Kind = o.Group, o.Version, o.Kind
			asked.Object.Raw = o.Raw
			got, _ := h.answer(t.Context(), h.o.Clusters[0], asked, around, unread)
			want := v.Expected[released]
			if got.Allowed != want.Allowed {
				t.Fatalf("%+v, want %+v", got, want)
			}
			if !got.Allowed && int(got.Result.Code) != want.Code {
				t.Errorf("code %d (%s), want %d", got.Result.Code, got.Result.Message, want.Code)
			}
			if want.Allowed && want.Fields != nil && got.Patch != nil {
				var ops []Operation
				if err := json.Unmarshal(got.Patch, &ops); err != nil || got.PatchType != string(admissionv1.PatchTypeJSONPatch) {
					t.Fatal(err)
				}
				compareFields(t, apply(t, o.Raw, ops), want.Fields)
			}
		})
	}
}

// TestBothVersions looks that an answer is of the version that was asked.
func TestBothVersions(t *testing.T) {
	h, results := handler(&site{around: around(3)}, conventions)
	for _, version := range []string{"v1", "v1beta1"} {
		w := post(h, reviewOf(version, "Deployment",
			`{"metadata":{"labels":{"`+DefaultPrefix+`type":"server"}},"spec":{"replicas":1}}`))
		if a := answered(t, w); !a.Allowed || !strings.Contains(string(a.Patch), "/spec/replicas") ||
			!strings.Contains(w.Body.String(), `"admission.k8s.io/`+version+`"`) {
			t.Errorf("%s: %s", version, w.Body)
		}
	}
	if a := answered(t, post(h, reviewOf("v1", "Deployment", `{}`))); !a.Allowed || a.Patch != nil || a.Result != nil {
		t.Errorf("nothing to do: %+v", a)
	}
	if results[ResultChanged] != 2 || results[ResultUnchanged] != 1 {
		t.Error(results)
	}
}

// TestMalformed are bodies that are no reviews.
func TestMalformed(t *testing.T) {
	h, results := handler(&site{around: around(3)}, conventions)
	for body, code := range map[string]int{
		"": 400, "{": 400, "null": 400, "[]": 400, `{"kind":"AdmissionReview"}`: 400,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`:              400,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}`: 400,
		reviewOf("v2", "Deployment", "{}"):                                           400,
		strings.Repeat(" ", maxReview+1):                                             413,
	} {
		if w := post(h, body); w.Code != code {
			t.Errorf("%.40q: %d %s", body, w.Code, w.Body)
		}
	}
	if results[ResultMalformed] != 9 {
		t.Error(results)
	}
	for _, ask := range []struct {
		method, path string
		code         int
	}{{"GET", PathMutate, 405}, {"POST", "/", 404}, {"GET", PathHealthz, 200}} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(ask.method, ask.path, nil))
		if w.Code != ask.code {
			t.Errorf("%+v: %d", ask, w.Code)
		}
	}
}

// TestNotAdmitted is what is refused, with the codes of the original.
func TestNotAdmitted(t *testing.T) {
	unread := &site{err: errors.New(`namespaces "ns1" not found`)}
	for name, row := range map[string]struct {
		site       *site
		kind, raw  string
		code       int32
		text, kept string
	}{
		"namespace cannot be read": {unread, "Deployment", "{}", 500, "not found", ResultFailed},
		"whatever kind it is":      {unread, "DaemonSet", "{}", 500, "not found", ResultFailed},
		"cluster is silent":        {&site{wait: make(chan struct{})}, "Deployment", "{}", 500, "deadline", ResultFailed},
		"a fault of ours": {&site{panics: true}, "Deployment", "{}", 500, "panic: out of order [recovered]",
			ResultFailed},
		"no object":   {&site{}, "Deployment", "null", 403, "no object", ResultRefused},
		"no selector": {&site{}, "StatefulSet", `{"spec":{}}`, 500, "spec.selector", ResultFailed},
	} {
		h, results := handler(row.site, conventions)
		h.o.Timeout = 10 * time.Millisecond
		a := answered(t, post(h, reviewOf("v1", row.kind, row.raw)))
		if a.Allowed || a.Patch != nil || a.Result.Code != row.code || !strings.Contains(a.Result.Message, row.text) ||
			results[row.kept] != 1 {
			t.Errorf("%s: %+v %v", name, a, results)
		}
	}
	h, _ := handler(&site{}, conventions)
	a := answered(t, post(h, strings.Replace(reviewOf("v1", "Pod", "{}"), `"apps"`, `""`, 1)))
	if !a.Allowed || a.Result.Message != "unexpected resource: Pod" {
		t.Errorf("a kind that is not known: %+v", a)
	}
}

// TestBusy asks while all places are taken, until one is left.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, results := handler(&site{around: around(3)}, conventions)
		var taken []*admission.Place
		for n := range 8 {
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // it does not wait
			if p, err := h.o.Admission.Admit(ctx, admission.Stranger,
				admission.Caller{Port: admission.Webhook, Source: admission.Named(fmt.Sprint(n))}); err == nil {
				taken = append(taken, p)
			}
		}
		if w := post(h, reviewOf("v1", "Deployment", "{}")); w.Code != http.StatusTooManyRequests ||
			w.Header().Get("Retry-After") == "" || results[ResultBusy] != 1 {
			t.Errorf("review-places: %d %s, %v", w.Code, w.Body, results)
		}
		taken[0].Leave()
		if w := post(h, reviewOf("v1", "Deployment", "{}")); w.Code != http.StatusOK {
			t.Errorf("review-places: %d %s", w.Code, w.Body)
		}
	})
}

// A review whose turn to be read for does not come is refused so that the API server asks again,
// and waits under the address that it came from.
func TestReviewWithoutATurnIsAskedAgain(t *testing.T) {
	s := &site{err: fmt.Errorf("read namespaces: %w", admission.ErrBusy)}
	h, results := handler(s, conventions)
	w := post(h, reviewOf("v1", "Deployment", "{}")) // of 192.0.2.1
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || results[ResultBusy] != 1 {
		t.Errorf("review-turn: %d %s, %v", w.Code, w.Body, results)
	}
	if s.source.String() != "192.0.2.1/32" {
		t.Errorf("review-source: it waited as one of %v", s.source)
	}
}

// What waits for the API server keeps no place from reviews that do not.
func TestReviewsThatWaitHoldNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{around: around(3), wait: make(chan struct{})}
		h, _ := handler(s, conventions)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if w := post(h, reviewOf("v1", "Deployment", "{}")); w.Code != http.StatusOK {
					t.Errorf("review-waits: %d %s", w.Code, w.Body)
				}
			})
		}
		synctest.Wait()
		if in, waiting := h.o.Admission.Taken(admission.Stranger); in+waiting != 0 {
			t.Errorf("review-waits: %d reviews are in and %d wait while the API server is silent", in, waiting)
		}
		close(s.wait)
		all.Wait()
	})
}

// stalled is a body that stops after so many bytes until it is told to end.
type stalled struct {
	left int
	end  <-chan struct{}
}

func (s *stalled) Read(p []byte) (n int, err error) {
	if s.left == 0 {
		<-s.end // in a bubble
		return 0, io.ErrUnexpectedEOF
	}
	n = min(len(p), s.left)
	s.left -= n
	return n, nil
}

// Bodies that one source does not end leave room for the reviews of others.
func TestBodiesOfReviewsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := handler(&site{around: around(3)}, conventions)
		end := make(chan struct{})
		var all sync.WaitGroup
		var busy atomic.Int64
		for range 20 {
			all.Go(func() {
				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodPost, PathMutate, &stalled{3 << 20, end})
				r.ContentLength = 4 << 20
				h.ServeHTTP(w, r)
				if w.Code == http.StatusTooManyRequests {
					busy.Add(1)
				}
			})
		}
		time.Sleep(roomWait) // in a bubble
		synctest.Wait()
		if held := h.bodies.Held(); held > 24<<20 || busy.Load() != 15 {
			t.Errorf("review-bytes: one source holds %d bytes, %d reviews are refused", held, busy.Load())
		}
		r := httptest.NewRequest(http.MethodPost, PathMutate, strings.NewReader(reviewOf("v1", "Deployment", "{}")))
		r.RemoteAddr = "192.0.2.77:1"
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("review-bytes: a review of another source: %d %s", w.Code, w.Body)
		}
		close(end)
		all.Wait()
	})
}

// TestUnready says so to whoever asks for its health.
func TestUnready(t *testing.T) {
	h, _ := handler(&site{err: errors.New("silent for 20s")}, conventions)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, PathHealthz, nil))
	if text, err := io.ReadAll(w.Body); w.Code != http.StatusServiceUnavailable ||
		!strings.Contains(string(text), "silent for 20s") {
		t.Errorf("%d %s %v", w.Code, text, err)
	}
}

// FuzzReview sends anything: no panic of ours reaches the answer, what is allowed
// has a patch that fits, and a second pass changes nothing.
func FuzzReview(f *testing.F) {
	for _, v := range vectors(f) {
		if v.Request.RawObject == nil {
			f.Add([]byte(reviewOf("v1", v.Request.Kind.Kind, string(v.Request.Object))))
		}
	}
	f.Add([]byte(reviewOf("v1beta1", "StatefulSet", `{"spec":{"template":null,"selector":{}}}`)))
	seconds := int64(60)
	c := Conventions{Names: conventions.Names, NotReadySeconds: &seconds}
	f.Fuzz(func(t *testing.T, body []byte) {
		review, _, err := parseReview(body)
		if err != nil {
			return
		}
		zones := around(3, "zones", "a,b", "failure-tolerance-type", "zone")
		h, _ := handler(&site{}, c)
		first, _ := h.answer(t.Context(), h.o.Clusters[0], review.Request, zones, nil)
		if first.Result != nil && strings.HasPrefix(first.Result.Message, "panic") {
			t.Fatal(first.Result.Message)
		}
		if first.Patch == nil {
			return
		}
		var ops []Operation
		if err := json.Unmarshal(first.Patch, &ops); err != nil {
			t.Fatal(err)
		}
		review.Request.Object.Raw = apply(t, review.Request.Object.Raw, ops)
		if again, _ := h.answer(t.Context(), h.o.Clusters[0], review.Request, zones, nil); !again.Allowed ||
			again.Patch != nil {
			t.Fatalf("%s is not as it should be: %+v", review.Request.Object.Raw, again)
		}
	})
}

// TestEachClusterHasItsPath gives objects the settings of their own cluster, whose
// name is in the path, and is silent about one cluster only.
func TestEachClusterHasItsPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := map[string]int{}
		seed, shoot := &site{around: around(3)}, &site{around: around(3, "failure-tolerance-type", "")}
		h := NewHandler(HandlerOptions{Clusters: []Served{{"seed", seed, conventions}, {"shoot", shoot, conventions}},
			Timeout: time.Second,
			Observe: func(cluster, result string, _ time.Duration) { results[cluster+" "+result]++ },
			Logger:  slog.New(slog.DiscardHandler)})
		ask := func(path string) *admissionv1.AdmissionResponse {
			w := httptest.NewRecorder()
			body := reviewOf("v1", "Deployment",
				`{"metadata":{"labels":{"`+DefaultPrefix+`type":"controller"}},"spec":{"replicas":3}}`)
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
			return answered(t, w)
		}
		for path, want := range map[string]string{ReviewPath("seed"): `"value":2`, ReviewPath("shoot"): `"value":1`} {
			if a := ask(path); !a.Allowed || !strings.Contains(string(a.Patch), want) {
				t.Errorf("settings-of-another-cluster: %s: %s, want %s", path, a.Patch, want)
			}
		}
		for path, says := range map[string]string{PathMutate: "haconfig manifest --cluster NAME",
			ReviewPath("other"): `no cluster "other"`} {
			if a := ask(path); a.Allowed || a.Result.Code != http.StatusNotFound || !strings.Contains(a.Result.Message, says) {
				t.Errorf("path-of-no-cluster: %s: %+v", path, a)
			}
		}
		shoot.wait, shoot.err = make(chan struct{}), errors.New("silent")
		if a := ask(ReviewPath("shoot")); a.Allowed || a.Result.Code != http.StatusInternalServerError {
			t.Errorf("the cluster that is away: %+v", a)
		}
		if a := ask(ReviewPath("seed")); !a.Allowed {
			t.Errorf("beside one that is away: %+v", a)
		}
		for path, want := range map[string]int{HealthPath("seed"): 200, HealthPath("shoot"): 503, HealthPath("other"): 404,
			PathHealthz: 200, PathHealthz + "/a/b": 404} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if w.Code != want {
				t.Errorf("health-of-each: %s: %d %s, want %d", path, w.Code, w.Body, want)
			}
		}
		if results["seed changed"] != 2 || results["shoot changed"] != 1 || results["shoot failed"] != 1 ||
			results[" refused"] != 2 {
			t.Errorf("%v", results)
		}
	})
}
