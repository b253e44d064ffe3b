// Package kube is a Kubernetes cluster for haconfig, through client-go: what an
// object's surroundings are, for the webhook on every peer, and what the leader
// keeps there.
//
// What the webhook asks is read from the API server, not from a cache that follows
// it: a namespace that was annotated a moment ago must not be taken for one that was
// not. What was read serves a second, so that a burst of objects costs one read; it
// serves longer only while the API server does not answer.
//
// Whatever the leader writes holds for the version that it read. No request is
// tried twice here.
package kube
