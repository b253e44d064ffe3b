// Package health is what a peer says about itself: its status with warnings, the lines
// of readyz, figures for Prometheus, the facts that doctor compares, the host report that
// it sends to other peers, and the events of its host. Its types take the parts of a peer
// that they look at, and change none of them.
package health
