// Package cluster makes peers into a cluster: the port they share, the session
// each keeps in the log, joining and leaving, promotion of joiners, renewal of
// certificates, and gossip for display (docs/design.md#membership).
package cluster
