// Package kube shows an election in Kubernetes, for programs that read it there: in a
// Lease, or in the annotation of an Endpoints object as leader-elector kept it.
//
// Nobody is elected by these objects, and nothing here reads who leads from them. They
// are written by the confirmed holder alone, while it is confirmed; each write holds
// for the version that was read, and the fencing token stands in an annotation that a
// lower one never replaces. The objects' count of transitions is Kubernetes' own and
// begins again when an object is deleted; it is no token.
package kube
