package sidecar

import (
	"fmt"
	"strings"
)

// maxLeaseName is how long a lease's name may be, in bytes.
const maxLeaseName = 253

// letters are those of namespaces and, with the dot, of elections.
const letters = "abcdefghijklmnopqrstuvwxyz0123456789-"

// LeaseName is the lease that an election is about: elector.NAMESPACE.ELECTION. A
// namespace has no dot, so that no two elections share a lease.
func LeaseName(namespace, election string) (string, error) {
	if namespace == "" || strings.Trim(namespace, letters) != "" || strings.Trim(namespace, "-") != namespace {
		return "", fmt.Errorf("namespace %q: it is of small letters, digits and '-', as Kubernetes' are", namespace)
	}
	if election == "" || strings.Trim(election, letters+".") != "" || strings.Trim(election, "-.") != election {
		return "", fmt.Errorf("election %q: it is of small letters, digits, '-' and '.', as the names of Endpoints are",
			election)
	}
	name := "elector." + namespace + "." + election
	if len(name) > maxLeaseName {
		return "", fmt.Errorf("%s is longer than %d bytes", name, maxLeaseName)
	}
	return name, nil
}
