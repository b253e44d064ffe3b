// Package api serves HTTP: the REST API of ironic-inspector with health and
// metrics, and the control interface of one peer on its unix socket and, for
// operators with a certificate, on the peers' port.
//
// Handlers translate between HTTP and small interfaces that their consumers
// implement; they decide nothing. translate turns every error into a status and a
// body. docs/contract.md has the rules of the wire, openapi.yaml every path.
package api
