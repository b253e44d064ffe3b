// Package kube is a Kubernetes cluster for haconfig, through client-go: it reads what the
// webhook needs to know about an object's surroundings, on every peer, and writes what the
// leader maintains there.
//
// The webhook's reads go to the API server, not to a cache that follows it: a namespace
// that was annotated a moment ago must not be taken for one that was not. An answer is
// reused for a second, so that a burst of objects costs one read, and for longer only while
// the API server does not answer.
//
// Every write of the leader is conditional on the version that it read. No request is tried
// twice here.
package kube
