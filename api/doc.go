// Package api serves HTTP: the REST API of ironic-inspector with health and
// metrics. It has the front that the control interface of package app/admin
// stands behind, too: access, audit, admission, and errors as answers.
//
// Handlers translate between HTTP and small interfaces that their consumers
// implement; they decide nothing. translate turns every error into a status and a
// body. docs/contract.md has the rules of the wire, openapi.yaml every path.
package api
