// Package haconfig gives deployed components in Kubernetes their settings for high
// availability: how many replicas, spread over which hosts and zones, pinned where, and
// how soon moved. Conventions.Mutate decides, as a pure function. Handler is the admission
// webhook around it, which every peer serves, with or without quorum. The duties, on the
// leader alone, write what the webhook needs in the cluster.
//
// The decisions are those of Gardener's high-availability-config webhook, release v1.149.0,
// quirks included: testdata/vectors.json holds inputs and the outputs that it gave. Strict
// names the quirks that can be switched off.
//
// Objects are changed by JSON patches of the few fields that are decided here, so that
// fields that a newer API server knows and this binary does not are not lost.
//
// Values of this package may be used concurrently. haconfig/kube talks to the cluster.
package haconfig
