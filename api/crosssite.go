package api

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// sameSite refuses a request that would change something and that a browser sent
// for a page of another site, by its Sec-Fetch-Site, or by an Origin that is not
// the Host. Who may reach the API is often who may use it (noauth, callbacks), and
// a browser adds a password that it knows (http_basic) to any request of a page: a
// page that an operator looks at must not act for that operator. Clients that are
// no browsers send neither header. No page can have a browser add tokenHeader
// without the leave of this API, which never gives it, so that a request with a
// token may come from anywhere.
//
// It does not see a page whose own name its owner lets point to this address (DNS
// rebinding): there Origin and Host are equal.
func sameSite(h echo.HandlerFunc) echo.HandlerFunc {
	check := http.NewCrossOriginProtection()
	return func(c echo.Context) error {
		r := c.Request()
		if r.Header.Get(tokenHeader) == "" && check.Check(r) != nil {
			return refuse(http.StatusForbidden,
				"A browser sent this request for a page of another site (Origin %q, Sec-Fetch-Site %q); use a client that is no browser",
				bounded(r.Header.Get("Origin")), bounded(r.Header.Get("Sec-Fetch-Site")))
		}
		return h(c)
	}
}
