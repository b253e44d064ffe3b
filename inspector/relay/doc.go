// Package relay hands callbacks on that are for Ironic's own in-band inspection: Intake takes
// them in on any peer, and the leader's Relayer sends them until Ironic has taken them.
package relay
