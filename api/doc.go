// Package api is what others call: the REST API of ironic-inspector with health
// and metrics beside it, and the control interface of one peer on its unix
// socket and, with an operator certificate, on the peers' port.
//
// Handlers translate between HTTP and small interfaces; they decide nothing.
package api
