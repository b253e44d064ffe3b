package health

import (
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// Figures are what is counted while it happens, and the registry that shows it
// with all that is read when it is scraped.
type Figures struct {
	*prometheus.Registry
	commits   prometheus.Histogram
	requests  *prometheus.HistogramVec // call, code
	Throttled prometheus.Counter
	logins    *prometheus.CounterVec // result
	elections *prometheus.CounterVec // answer
}

// NewFigures returns figures that count from 0, in a registry of their own.
func NewFigures() *Figures {
	f := &Figures{
		Registry: prometheus.NewRegistry(),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "trivet", Name: "raft_commit_seconds",
			Help:    "How long the leader's probe of each second took to be committed and applied, or was waited for. The leader has it.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "trivet", Name: "api_request_seconds",
			Help:    "How long the inspector's API took to answer, by what was asked (callback of a ramdisk, or request) and by the code of the answer.",
			Buckets: []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}}, []string{"call", "code"}),
		Throttled: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "trivet", Name: "api_callbacks_throttled_total",
			Help: "Callbacks that were refused with 503, since their source sends more than one may."}),
		logins: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "trivet", Name: "page_logins_total",
			Help: "Logins at the page that were judged, by their result (ok or refused)."}, []string{"result"}),
		elections: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "trivet", Name: "elector_answers_total",
			Help: "Answers of this peer's leader endpoints: named with a leader's name, none without one."}, []string{"answer"}),
	}
	for _, answer := range []string{"named", "none"} {
		f.elections.WithLabelValues(answer) // so that each is there from the start
	}
	return f
}

// LoggedIn counts a login at the page.
func (f *Figures) LoggedIn(ok bool) { f.logins.WithLabelValues(label(ok, "ok", "refused")).Inc() }

// Committed notes how long a write of the leader took.
func (f *Figures) Committed(took time.Duration) { f.commits.Observe(took.Seconds()) }

// Answered counts an answer of a leader endpoint.
func (f *Figures) Answered(named bool) {
	f.elections.WithLabelValues(label(named, "named", "none")).Inc()
}

func label(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// Timed measures the requests to the inspector's API. Health and figures are
// not: monitoring would drown out the callers.
func (f *Figures) Timed(next http.Handler) http.Handler {
	of := func(call string) http.Handler {
		return promhttp.InstrumentHandlerDuration(f.requests.MustCurryWith(prometheus.Labels{"call": call}), next)
	}
	callback, request := of("callback"), of("request")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/v1/continue"):
			callback.ServeHTTP(w, r)
		case r.URL.Path == "/v1/events": // lasts as long as its caller likes
			next.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, "/v1"):
			request.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// recently is for how long an introspection that has ended counts as new.
const recently = time.Hour

// countedNodes are the records of a view.
type countedNodes struct {
	states map[introspection.NodeState]int
	recent map[introspection.NodeState]int // of those that have ended, recently
}

// countNodes goes through all records: some milliseconds for 10,000, at each
// scrape.
func countNodes(v fsm.View) countedNodes {
	out := countedNodes{states: make(map[introspection.NodeState]int), recent: make(map[introspection.NodeState]int)}
	for r := range v.Records() {
		out.states[r.State]++
		if !r.State.Active() && v.Now().Sub(r.Finished) < recently {
			out.recent[r.State]++
		}
	}
	return out
}
