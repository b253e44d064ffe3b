// Package haconfig gives deployed components their settings of high availability:
// how many replicas, spread over which hosts and zones, pinned where, and how soon
// moved. [Conventions.Mutate] decides, as a function of what it is given; [Handler]
// is the admission webhook around it, which every peer serves, with or without
// quorum; the duties keep what the webhook needs in the cluster, on the leader alone.
//
// What is decided is what Gardener's high-availability-config webhook decides, of
// release v1.149.0, with its quirks: testdata/vectors.json holds inputs with the
// outputs that it gave. [Strict] names the quirks that can be taken out.
//
// Objects are changed by JSON patches of the few fields that are decided here.
// Nothing else is encoded anew: fields that a newer API server knows and this
// binary does not are not lost.
//
// Values here are plain and may be used concurrently; whatever talks to a cluster
// lives in package haconfig/kube.
package haconfig
