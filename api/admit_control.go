package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// controlCost is the class of a route of the control interface. What the page at /ui/
// shows to every user costs what it costs; all else is for operators.
func controlCost(method, path string) admission.Class {
	if method != http.MethodGet {
		return admission.Operator
	}
	switch path {
	case "/v1/status", "/v1/members", "/v1/failover", "/v1/failover/remediations":
		return admission.Read
	case "/v1/firewall" + explain + ":machine", pathEvents:
		return admission.Dear
	}
	return admission.Operator
}

// admit runs each route in a place of its class.
func (c *Control) admit(next echo.HandlerFunc) echo.HandlerFunc {
	return func(ctx echo.Context) error {
		class := controlCost(ctx.Request().Method, ctx.Path())
		return admitted(c.Admission, class, controlCaller, next)(ctx)
	}
}

// controlCaller is who asks: a process of this host, an operator whom the handshake
// proved, or a user of the page.
func controlCaller(ctx echo.Context) admission.Caller {
	r := ctx.Request()
	if made, ok := r.Context().Value(pageKey{}).(*call); ok {
		return admission.Caller{Source: made.source, Operator: made.caller.Role == RoleAdmin}
	}
	return admission.Caller{Source: admission.SourceOf(parseAddress(r.RemoteAddr)), Operator: true}
}
