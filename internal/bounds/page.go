package bounds

import (
	"mime"
	"net/http"
)

// IsPage reports whether an answer that says yes, with a code of 200 to 299, is a page of HTML. What
// stands in front of a service, such as a portal that wants a login or a balancer that excuses itself,
// sends one to all that it is asked: a request that it answers has not reached the service.
func IsPage(answer *http.Response) bool {
	kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return err == nil && kind == "text/html" && answer.StatusCode/100 == 2
}
