package api

import "net/http"

// Public returns everything that a peer answers on api.listen: health, and the
// inspector's API for all other paths. Serve it as it is: a mux in front of it
// would answer some paths itself.
func Public(h Health, i *Inspector) http.Handler {
	health, introspection := h.Handler(), i.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.answers(r.URL.Path) {
			health.ServeHTTP(w, r)
			return
		}
		introspection.ServeHTTP(w, r)
	})
}
