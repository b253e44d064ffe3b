package kubeclient

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Said reports whether the API server itself answered with this error. What stands in front of it, such as an
// Ingress without a route to it or a proxy that wants a login, answers without a Status, and client-go calls
// that by its code all the same: a 404 "not found", a 302 an answer.
func Said(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsUnexpectedServerError(err)
}

// Gone reports whether the API server itself said that what was asked for is not there.
func Gone(err error) bool { return apierrors.IsNotFound(err) && Said(err) }
