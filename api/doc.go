// Package api is what others call: health and metrics for everybody, and the
// control interface of one peer on its unix socket and, with an operator
// certificate, on the peers' port.
//
// Handlers translate between HTTP and small interfaces; they decide nothing.
package api
