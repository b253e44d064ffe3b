// Package kube publishes an election in Kubernetes for programs that read it there:
// in a Lease, or in the annotation of an Endpoints object as leader-elector did.
//
// These objects elect no leader, and Trivet never reads from them who leads. Only the
// confirmed holder writes them, while it is confirmed. Each write is conditional on the
// version that was read, and a lower fencing token never replaces the one in the
// annotation. The objects' count of transitions is Kubernetes' own; it begins again
// when an object is deleted and is not a fencing token.
package kube
