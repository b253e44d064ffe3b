package haconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Paths of the webhook's port.
const (
	PathMutate  = "/webhooks/high-availability-config" // the original's
	PathHealthz = "/healthz"
)

// Bounds of what is asked of one peer.
const (
	// maxReview is what a review may have, in bytes: an object and what it was
	// before, of 3 MiB each, which is the most an API server takes.
	maxReview = 8 << 20
	// maxReviews is how many are worked on at once, and maxReviewsOfSource of one
	// source; each may hold maxReview. The others wait for reviewWait, and the API
	// server asks again after a 429.
	maxReviews         = 64
	maxReviewsOfSource = 48
	reviewWait         = time.Second
	// bodyLimit is how long a review may take to arrive.
	bodyLimit = 5 * time.Second
)

// Cluster is what is asked about objects' surroundings.
type Cluster interface {
	// Surroundings reads what there is about a namespace. Its error is shown to
	// whoever asks for admission. It returns before ctx has ended, or soon after.
	Surroundings(ctx context.Context, namespace string) (Surroundings, error)
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

// HandlerOptions are the parts of a Handler. All are required.
type HandlerOptions struct {
	Cluster     Cluster
	Conventions Conventions
	// Timeout bounds what one review asks of the cluster. It is less than what the
	// registration gives: an answer that says why is better than none.
	Timeout time.Duration
	// Observe is told of every review.
	Observe func(result string, took time.Duration)
	Logger  *slog.Logger
}

// Handler is the admission webhook on one peer: it answers reviews at PathMutate and
// says at PathHealthz whether it can. It asks nothing of the log, so that it answers
// with and without a quorum. What it cannot decide it refuses; it never admits
// what it has not looked at, but for kinds that it does not know.
type Handler struct {
	o      HandlerOptions
	places *admission.Line // for reviews under way
}

var _ http.Handler = (*Handler)(nil)

// NewHandler returns a handler that may be used concurrently.
func NewHandler(o HandlerOptions) *Handler {
	return &Handler{o: o, places: admission.NewLine(admission.Places{AtOnce: maxReviews, Share: maxReviewsOfSource, Waiting: 2 * maxReviews, Wait: reviewWait}, 1)}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == PathHealthz && r.Method == http.MethodGet:
		h.healthz(w)
	case r.URL.Path != PathMutate:
		http.Error(w, "the webhook is at "+PathMutate, http.StatusNotFound)
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "reviews are posted", http.StatusMethodNotAllowed)
	default:
		began := time.Now()
		result := h.mutate(w, r)
		h.o.Observe(result, time.Since(began))
	}
}

func (h *Handler) healthz(w http.ResponseWriter) {
	if err := h.o.Cluster.Ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n") // who asked may have gone
}

func (h *Handler) mutate(w http.ResponseWriter, r *http.Request) (result string) {
	source := admission.RemoteSource(r.RemoteAddr)
	if h.places.Enter(r.Context(), 0, source) != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, fmt.Sprintf("%d reviews are under way here, or %d of this caller", maxReviews, maxReviewsOfSource), http.StatusTooManyRequests)
		return ResultBusy
	}
	defer h.places.Leave(source)
	review, code, err := readReview(w, r)
	if err != nil {
		http.Error(w, err.Error(), code)
		return ResultMalformed
	}
	review.Response, result = h.answer(r.Context(), review.Request)
	review.Request = nil // it need not travel back
	text, err := json.Marshal(review)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return ResultFailed
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // who asked may have gone
	return result
}

// readReview reads a review of either version; but for their names they are the
// same. The error comes with a code of HTTP.
func readReview(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionReview, int, error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyLimit)) // a recorder of a test has none
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("a review has at most %d bytes", maxReview)
	}
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("read the review: %w", err)
	}
	return parseReview(body)
}

func parseReview(body []byte) (*admissionv1.AdmissionReview, int, error) {
	var review admissionv1.AdmissionReview
	if err := unmarshal(body, &review); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("this is no AdmissionReview: %w", err)
	}
	version, kind := review.APIVersion, review.Kind
	if kind != "AdmissionReview" || version != admissionv1.SchemeGroupVersion.String() && version != admissionv1beta1.SchemeGroupVersion.String() {
		return nil, http.StatusBadRequest, fmt.Errorf("this is %q of %q, not an AdmissionReview of admission.k8s.io/v1 or v1beta1", kind, version)
	}
	if review.Request == nil || review.Request.UID == "" {
		return nil, http.StatusBadRequest, errors.New("the AdmissionReview has no request with a uid")
	}
	return &review, 0, nil
}

// answer decides about one request.
func (h *Handler) answer(ctx context.Context, asked *admissionv1.AdmissionRequest) (answer *admissionv1.AdmissionResponse, result string) {
	verdict, err := h.decide(ctx, asked)
	var text []byte
	if err == nil && len(verdict.Patch) > 0 {
		text, err = json.Marshal(verdict.Patch)
	}
	if err != nil {
		return h.refuse(ctx, asked, err)
	}
	answer = &admissionv1.AdmissionResponse{UID: asked.UID, Allowed: true}
	if verdict.Message != "" {
		answer.Result = &metav1.Status{Code: http.StatusOK, Message: verdict.Message}
	}
	if text == nil {
		return answer, ResultUnchanged
	}
	kind := admissionv1.PatchTypeJSONPatch
	answer.Patch, answer.PatchType = text, &kind
	return answer, ResultChanged
}

func (h *Handler) refuse(ctx context.Context, asked *admissionv1.AdmissionRequest, err error) (*admissionv1.AdmissionResponse, string) {
	code, result := http.StatusInternalServerError, ResultFailed
	var refused *Refusal
	if errors.As(err, &refused) {
		code = refused.Code
	}
	if code < http.StatusInternalServerError {
		result = ResultRefused
	}
	h.o.Logger.WarnContext(ctx, "admission review denied", "uid", asked.UID, "kind", asked.Kind.Kind, "namespace", asked.Namespace, "name", asked.Name, "code", code, "reason", err)
	return refusal(asked.UID, code, err.Error()), result
}

// reasons are Kubernetes' words for codes.
var reasons = map[int]metav1.StatusReason{
	http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
}

func refusal(uid types.UID, code int, text string) *admissionv1.AdmissionResponse {
	reason, known := reasons[code]
	if !known {
		reason = metav1.StatusReasonInternalError
	}
	return &admissionv1.AdmissionResponse{UID: uid, Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: text,
	}}
}

// decide reads the surroundings and asks Mutate. A fault of ours on one object
// refuses that object, and nothing else.
func (h *Handler) decide(ctx context.Context, asked *admissionv1.AdmissionRequest) (v Verdict, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			v, err = Verdict{}, fmt.Errorf("panic: %v [recovered]", fault)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, h.o.Timeout)
	defer cancel()
	around, err := h.o.Cluster.Surroundings(ctx, asked.Namespace)
	if err != nil {
		return Verdict{}, err
	}
	kind := schema.GroupVersionKind{Group: asked.Kind.Group, Version: asked.Kind.Version, Kind: asked.Kind.Kind}
	return h.o.Conventions.Mutate(Object{GroupVersionKind: kind, Name: asked.Name, Raw: asked.Object.Raw}, around)
}
