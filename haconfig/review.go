package haconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Paths of the webhook's port. Below each is one for each cluster; where one cluster
// alone is served, they themselves are its.
const (
	PathMutate  = "/webhooks/high-availability-config" // the original's
	PathHealthz = "/healthz"
)

// ReviewPath is where the API server of a cluster asks. The path alone says which
// cluster that is: API servers do not authenticate themselves to webhooks.
func ReviewPath(cluster string) string { return PathMutate + "/" + cluster }

// HealthPath is where a peer says whether it can answer for a cluster.
func HealthPath(cluster string) string { return PathHealthz + "/" + cluster }

// Bounds of the admission reviews of one peer.
const (
	// maxReview is what a review may have, in bytes: an object and what it was
	// before, of 3 MiB each, which is the most an API server takes.
	maxReview = 8 << 20
	// bodyLimit is how long a review may take to arrive, and roomWait how long it waits unread
	// for room before.
	bodyLimit = 5 * time.Second
	roomWait  = time.Second
)

// bodies bounds the reviews that are held. What is computed for them is bounded by
// their class, what is read from the cluster by a line of the cluster's own.
var bodies = admission.Bytes{All: 48 << 20, Share: 3 * (maxReview + 1), Small: 256<<10 + 1, Large: 32 << 20,
	Waiting: 512}

// Routes returns what is answered on the webhook's port, and the class of each.
func Routes() map[string]admission.Class {
	const any = ":cluster"
	return map[string]admission.Class{
		http.MethodGet + " " + PathHealthz: admission.Probe, http.MethodGet + " " + HealthPath(any): admission.Probe,
		http.MethodPost + " " + PathMutate: admission.Stranger, http.MethodPost + " " + ReviewPath(any): admission.Stranger,
	}
}

// Cluster is what is asked about objects' surroundings.
type Cluster interface {
	// Surroundings reads what there is about a namespace, for a source of reviews, which
	// waits for its turn; where that does not come the error is admission.ErrBusy. Its
	// error is shown to the client that asks for admission. It returns before ctx has
	// ended, or soon after.
	Surroundings(ctx context.Context, source netip.Prefix, namespace string) (Surroundings, error)
	// Ready says why the cluster cannot be asked now, nil if it can. It does not
	// block.
	Ready() error
}

// Results of reviews, for Observe.
const (
	ResultChanged   = "changed"
	ResultUnchanged = "unchanged"
	ResultRefused   = "refused"   // for what it says
	ResultFailed    = "failed"    // for what could not be read
	ResultMalformed = "malformed" // it is no review
	ResultBusy      = "busy"      // too many at once
)

// Served is a cluster whose API server asks.
type Served struct {
	Name        string
	Cluster     Cluster
	Conventions Conventions
}

// HandlerOptions are the parts of a Handler. All are required, but for Admission.
type HandlerOptions struct {
	Clusters []Served // each with another name
	// Timeout bounds the work on one review. It is less than what the registration
	// gives: an answer that says why is better than none.
	Timeout   time.Duration
	Admission *admission.Controller // nil: one of its own
	// Observe is called for every review, with its cluster: "" if its path names none
	// that is served.
	Observe func(cluster, result string, took time.Duration)
	Logger  *slog.Logger
}

// Handler is the admission webhook on one peer: it answers reviews at ReviewPath and
// says at HealthPath whether it can, of each cluster by itself. It asks nothing of the
// log, so that it answers with and without a quorum. What it cannot decide it refuses;
// it never admits what it has not looked at, but for kinds that it does not know.
type Handler struct {
	o       HandlerOptions
	bodies  *admission.Memory
	classes map[string]admission.Class // Routes
}

var _ http.Handler = (*Handler)(nil)

// NewHandler returns a handler that may be used concurrently.
func NewHandler(o HandlerOptions) *Handler {
	if o.Admission == nil {
		o.Admission = admission.NewController()
	}
	return &Handler{o: o, bodies: admission.NewMemory(bodies), classes: Routes()}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	health, asksHealth := below(PathHealthz, r.URL.Path)
	name, asks := below(PathMutate, r.URL.Path)
	root := PathMutate
	if asksHealth {
		root = PathHealthz
	}
	switch class, known := h.classes[r.Method+" "+root]; {
	case asksHealth && known:
		h.healthz(w, r, class, health)
	case !asks:
		http.Error(w, "the webhook is at "+ReviewPath("CLUSTER"), http.StatusNotFound)
	case !known:
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "reviews are posted", http.StatusMethodNotAllowed)
	default:
		began := time.Now()
		of, err := h.served(name)
		result := h.mutate(w, r, class, of, err)
		h.o.Observe(of.Name, result, time.Since(began))
	}
}

// below returns the name that a path has below another, "" for that one itself.
func below(root, path string) (name string, is bool) {
	if path == root {
		return "", true
	}
	name, is = strings.CutPrefix(path, root+"/")
	return name, is && name != "" && !strings.Contains(name, "/")
}

// served is the cluster of a name, or the only one without a name. With several a
// path without a name is refused: one cluster's objects must not get the settings of
// another's namespaces.
func (h *Handler) served(name string) (Served, error) {
	if name == "" && len(h.o.Clusters) == 1 {
		return h.o.Clusters[0], nil
	}
	for _, of := range h.o.Clusters {
		if of.Name == name && name != "" {
			return of, nil
		}
	}
	if name == "" {
		return Served{}, refuse(http.StatusNotFound,
			"the path of the registration names no cluster, and there are several: apply 'trivet haconfig manifest --cluster NAME'")
	}
	return Served{}, refuse(http.StatusNotFound,
		"no cluster %.63q is served here: its name in the path of the registration is that of haconfig.kubeconfigs", name)
}

// healthz says whether a cluster can be answered for. Without a name of several, one
// will do.
func (h *Handler) healthz(w http.ResponseWriter, r *http.Request, class admission.Class, name string) {
	err := h.do(r.Context(), class, r, func() error {
		if name != "" || len(h.o.Clusters) <= 1 {
			of, err := h.served(name)
			if err != nil {
				return err
			}
			return of.Cluster.Ready()
		}
		var all []error
		for _, of := range h.o.Clusters {
			err := of.Cluster.Ready()
			if err == nil {
				return nil
			}
			all = append(all, fmt.Errorf("cluster %s: %w", of.Name, err))
		}
		return errors.Join(all...)
	})
	var unknown *Refusal
	switch {
	case errors.As(err, &unknown):
		http.Error(w, err.Error(), unknown.Code)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		_, _ = io.WriteString(w, "ok\n") // who asked may have gone
	}
}

// do works for a request in a place of a class.
func (h *Handler) do(ctx context.Context, class admission.Class, r *http.Request, work func() error) error {
	place, err := h.o.Admission.Admit(ctx, class,
		admission.Caller{Port: admission.Webhook, Source: admission.RemoteSource(r.RemoteAddr),
			Known: class == admission.Probe})
	if err != nil {
		return err
	}
	defer place.Leave()
	return work()
}

// mutate answers a review of a cluster; unserved is why there is none.
func (h *Handler) mutate(w http.ResponseWriter, r *http.Request, class admission.Class, of Served,
	unserved error) (result string) {
	ctx, cancel := context.WithTimeout(r.Context(), h.o.Timeout)
	defer cancel()
	length := r.ContentLength
	if length < 0 || length > maxReview {
		length = maxReview
	}
	source := admission.RemoteSource(r.RemoteAddr)
	room, err := h.bodies.Reserve(ctx, source, false, length+1, roomWait, func() {
		// Wakes the reader; a connection that is closed has woken it.
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	})
	if err != nil {
		return reject(w, 0, err)
	}
	defer room.Release()
	review, code, err := h.readReview(ctx, w, r, class, room)
	if err != nil {
		return reject(w, code, err)
	}
	var around Surroundings
	unread := unserved
	if unread == nil {
		around, unread = surroundings(ctx, of.Cluster, source, review.Request.Namespace)
	}
	if errors.Is(unread, admission.ErrBusy) {
		return reject(w, 0, unread)
	}
	var text []byte
	err = h.do(ctx, class, r, func() (err error) {
		review.Response, result = h.answer(ctx, of, review.Request, around, unread)
		review.Request = nil // it need not travel back
		text, err = json.Marshal(review)
		code = http.StatusInternalServerError
		return err
	})
	if err != nil {
		return reject(w, code, err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // who asked may have gone
	return result
}

// reject answers a request that is not judged, without a code for one that got no
// place or no room: the API server asks again after that.
func reject(w http.ResponseWriter, code int, err error) (result string) {
	result = ResultMalformed
	switch code {
	case 0:
		result, code = ResultBusy, http.StatusTooManyRequests
		w.Header().Set("Retry-After", "1")
		err = fmt.Errorf("too many reviews are under way here, or of this caller: %w", err)
	case http.StatusInternalServerError:
		result = ResultFailed
	}
	http.Error(w, err.Error(), code)
	return result
}

// readReview reads a review of either version; but for their names they are the same. The
// error comes with a code of HTTP, 0 for want of a place or of room.
func (h *Handler) readReview(ctx context.Context, w http.ResponseWriter, r *http.Request, class admission.Class,
	room *admission.Room) (review *admissionReview, code int, err error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyLimit)) // a recorder of a test has none
	body, err := room.Fill(http.MaxBytesReader(w, r.Body, maxReview), r.ContentLength, maxReview)
	room.Settle()
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("a review has at most %d bytes", maxReview)
	case errors.Is(err, admission.ErrBusy):
		return nil, 0, err
	case err != nil:
		return nil, http.StatusBadRequest, fmt.Errorf("read the review: %w", err)
	}
	err = h.do(ctx, class, r, func() (err error) {
		review, code, err = parseReview(body)
		return err
	})
	return review, code, err
}

func parseReview(body []byte) (*admissionReview, int, error) {
	var review admissionReview
	if err := unmarshal(body, &review); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("this is no AdmissionReview: %w", err)
	}
	version, kind := review.APIVersion, review.Kind
	if kind != "AdmissionReview" || version != "admission.k8s.io/v1" && version != "admission.k8s.io/v1beta1" {
		return nil, http.StatusBadRequest,
			fmt.Errorf("this is %q of %q, not an AdmissionReview of admission.k8s.io/v1 or v1beta1", kind, version)
	}
	if review.Request == nil || review.Request.UID == "" {
		return nil, http.StatusBadRequest, errors.New("the AdmissionReview has no request with a uid")
	}
	return &review, 0, nil
}

// answer decides about one request of a cluster.
func (h *Handler) answer(ctx context.Context, of Served, asked *admissionRequest, around Surroundings,
	unread error) (answer *admissionResponse, result string) {
	var verdict Verdict
	var text []byte
	err := unread
	if err == nil {
		verdict, err = of.decide(asked, around)
	}
	if err == nil && len(verdict.Patch) > 0 {
		text, err = json.Marshal(verdict.Patch)
	}
	if err != nil {
		return h.refuse(ctx, of.Name, asked, err)
	}
	answer = &admissionResponse{UID: asked.UID, Allowed: true}
	if verdict.Message != "" {
		answer.Result = &metav1.Status{Code: http.StatusOK, Message: verdict.Message}
	}
	if text == nil {
		return answer, ResultUnchanged
	}
	answer.Patch, answer.PatchType = text, "JSONPatch"
	return answer, ResultChanged
}

func (h *Handler) refuse(ctx context.Context, cluster string, asked *admissionRequest, err error) (*admissionResponse,
	string) {
	code, result := http.StatusInternalServerError, ResultFailed
	var refused *Refusal
	if errors.As(err, &refused) {
		code = refused.Code
	}
	if code < http.StatusInternalServerError {
		result = ResultRefused
	}
	h.o.Logger.WarnContext(ctx, "admission review denied", "cluster", cluster, "uid", asked.UID, "kind", asked.Kind.Kind,
		"namespace", asked.Namespace, "name", asked.Name, "code", code, "reason", err)
	reason, known := reasons[code]
	if !known {
		reason = metav1.StatusReasonInternalError
	}
	return &admissionResponse{UID: asked.UID, Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: err.Error(),
	}}, result
}

// reasons are Kubernetes' words for codes.
var reasons = map[int]metav1.StatusReason{
	http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
}

// surroundings reads what there is about a namespace. It waits, and so it has no place.
func surroundings(ctx context.Context, of Cluster, source netip.Prefix, namespace string) (around Surroundings,
	err error) {
	defer recovered(&err)
	return of.Surroundings(ctx, source, namespace)
}

// decide asks Mutate.
func (s Served) decide(asked *admissionRequest, around Surroundings) (v Verdict, err error) {
	defer recovered(&err)
	kind := schema.GroupVersionKind{Group: asked.Kind.Group, Version: asked.Kind.Version, Kind: asked.Kind.Kind}
	return s.Conventions.Mutate(
		Object{GroupVersionKind: kind, Namespace: asked.Namespace, Name: asked.Name, Raw: asked.Object.Raw}, around)
}

// recovered makes an error of a panic: a fault of ours on one object refuses that
// object, and nothing else. The function that defers it fails without a result.
func recovered(err *error) {
	if fault := recover(); fault != nil {
		*err = fmt.Errorf("panic: %v [recovered]", fault)
	}
}
