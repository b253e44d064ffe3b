package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/kubeclient"
)

// ask is a request to the API server, as its errors name it.
type ask struct {
	verb     string // as RBAC calls it
	resource string // likewise, with its group; a path for what is no resource
	name     string // namespace/name, name, or "" for a list
}

// String returns the request in words.
func (a ask) String() string {
	if a.name == "" {
		return a.verb + " " + a.resource
	}
	return a.verb + " " + a.resource + " " + a.name
}

// failed says what came of a call that was bounded by ctx. The reasons of
// Kubernetes become errors of failover; any other means that the outcome is not
// known.
func (a ask) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var late tooLate
	switch {
	case errors.As(context.Cause(ctx), &late):
		return fmt.Errorf("%v: %w", a, late) // not as if the caller's context had ended
	case apierrors.IsForbidden(err) && deniedByAdmission(err):
		return fmt.Errorf("%v: %w by an admission webhook or policy, which has to let it pass; no right is missing: %v", a,
			failover.ErrForbidden, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%v: %w: let us %s %s, as in `trivet failover manifest`: %v", a, failover.ErrForbidden, a.verb,
			a.resource, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%v: the API server does not know who we are; renew the token or certificate of the kubeconfig: %w",
			a, err)
	case a.name != "" && kubeclient.Gone(err):
		return fmt.Errorf("%v: %w: %v", a, failover.ErrGone, err)
	case apierrors.IsConflict(err):
		return fmt.Errorf("%v: %w: %v", a, failover.ErrConflict, err)
	case busy(err):
		return fmt.Errorf("%v: %w: %w", a, failover.ErrBusy, err)
	}
	return fmt.Errorf("%v: %w", a, err)
}

// deniedByAdmission reports whether we have the right, and a webhook or policy in front of the
// API server's storage refuses this object: both begin with the same 403.
func deniedByAdmission(err error) bool {
	return strings.Contains(err.Error(), "denied the request") || strings.Contains(err.Error(), " denied request")
}

// busy reports whether the API server answered that it cannot do it now: it sheds load,
// its storage has no leader, or a webhook in front of it fails.
func busy(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	code := answer.Status().Code
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}
