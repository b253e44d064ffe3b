package inspector

import (
	"fmt"
	"net/http"
)

// Refusal is an answer that the contract gives to a request it does not carry
// out: an HTTP status and the text of the body's error.message.
type Refusal struct {
	Status  int
	Message string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

func refuse(status int, format string, args ...any) error {
	return &Refusal{Status: status, Message: fmt.Sprintf(format, args...)}
}

func notFoundInIronic(ref string) error {
	return refuse(http.StatusNotFound, "Node %s was not found in Ironic", ref)
}

func notInCache(node string) error {
	return refuse(http.StatusNotFound, "Could not find node %s in cache", node)
}
