// Package pki holds the cluster's own certificate authority, the certificates
// of peers and operators, join tokens, and the rules by which one end of a TLS
// connection judges the other (docs/design.md#identity).
//
// It is values and rules only: the time, randomness and the bytes of files are
// handed in, and nothing here opens a socket or a file. Everything exported may
// be used by several goroutines at once, since no value changes after it was made.
//
// # Who is at the other end
//
// Peers come and go and change addresses, so host names prove nothing here. A
// certificate carries one URI that says who its owner is:
//
//	trivet://CLUSTER/peer/SERVER-ID?incarnation=N
//	trivet://CLUSTER/operator/NAME
//	trivet://CLUSTER/api/SERVER-ID
//
// The last is what a peer shows to clients of its REST API, who go by host names
// and addresses; the peers' port refuses it.
//
// The standard library's host name check is therefore switched off and replaced
// by [VerifyPeer], which runs inside VerifyConnection, that is in every
// handshake, before a byte of application data. TLS 1.3 only; sessions are never
// resumed, because a resumed one would skip the current certificate.
//
// # Wrong clocks
//
// A peer whose wall clock is hours off must still take part (docs/design.md#time), so:
//
//   - certificates are judged against a time that the caller derives and hands
//     in, never against a clock of this package;
//   - they begin [Backdate] (24 h) before they are issued, and live ten days
//     beyond the moment at which they should be renewed;
//   - time is judged last and apart from the chain, so that a refusal for the
//     clock says so ([ValidityError]) and a wrong identity is never called expired;
//   - Tolerance accepts a peer's certificate for a while before its beginning and
//     after its end. Three peers that were switched off for two months hold expired
//     certificates only, and three that booted with clocks two months ahead hold
//     certificates that begin in the future once the clocks are set; neither could
//     reach a quorum otherwise.
//
// # Joining
//
// A joiner has no certificate and trusts no peer. Its token names the SHA-256 of
// the CA's certificate; the listener presents the CA in its chain; the joiner
// compares before it sends the token's secret ([JoinerTLS]).
package pki
