// Package admin is the interface of one peer for its operators: on the unix socket,
// on the peers' port for operators with a certificate, and, for what a peer asks
// another on behalf of an operator, on the peers' port for members.
package admin
