package lender

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/lease"
)

// Public returns the API of a peer that lends by a service of package lease and lets
// in every caller. It is for tests of what stands below api and speaks to it.
func Public(lending *lease.Service) http.Handler {
	return api.Public(api.Health{Checks: func() []api.HealthCheck { return nil }, Metrics: prometheus.NewRegistry()},
		&api.Inspector{Lending: lending, Auth: api.NoAuth(), MaxLimit: 10, Logger: slog.New(slog.DiscardHandler),
			StaleFor: func() time.Duration { return 0 }})
}
