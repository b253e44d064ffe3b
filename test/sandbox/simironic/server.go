package simironic

import (
	"net/http"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/internal/pace"
)

// maxPage is how many entries a list holds at most, as in Ironic.
const maxPage = 1000

// maxBody bounds the body of a request, in bytes.
const maxBody = 1 << 20

// Options are what a Server is made from. The zero value is an Ironic that answers and
// switches power at once and tells nobody.
type Options struct {
	// Delay is what each call takes, unless its client ends it earlier.
	Delay time.Duration
	// PowerDelay is how long a power change takes. Meanwhile the node is locked
	// and refuses changes with 409, as under Ironic's conductor.
	PowerDelay time.Duration
	// OnPower is told of every power change as soon as it is done, with the
	// target that was asked for, such as "rebooting". It must not block, and may
	// be called concurrently.
	OnPower func(node, target string)
}

// Server is the service: an http.Handler. All its methods may be called
// concurrently.
type Server struct {
	opts Options
	mux  *http.ServeMux

	mu      sync.RWMutex // guards all below
	nodes   collection[*node]
	names   map[string]*node
	ports   collection[*port]
	address map[string]*port // by MAC

	stop    chan struct{} // closed by Close
	close   sync.Once
	pending sync.WaitGroup // power changes under way
}

// New returns an Ironic without nodes.
func New(o Options) *Server {
	s := &Server{
		opts: o, mux: http.NewServeMux(),
		nodes: newCollection[*node](), names: make(map[string]*node),
		ports: newCollection[*port](), address: make(map[string]*port),
		stop: make(chan struct{}),
	}
	s.routes()
	return s
}

func (s *Server) routes() {
	s.route("GET /{$}", s.root) // the original ironic-inspector of the bench begins there
	s.route("GET /v1", s.version)
	s.route("GET /v1/{$}", s.version)

	s.route("GET /v1/nodes", s.listNodes)
	s.route("POST /v1/nodes", s.createNode)
	s.route("GET /v1/nodes/{node}", s.getNode)
	s.route("PATCH /v1/nodes/{node}", s.patchNode)
	s.route("GET /v1/nodes/{node}/validate", s.validate)
	s.route("PUT /v1/nodes/{node}/management/boot_device", s.setBootDevice)
	s.route("PUT /v1/nodes/{node}/states/power", s.setPower)
	s.route("PUT /v1/nodes/{node}/traits/{trait}", s.addTrait)
	s.route("DELETE /v1/nodes/{node}/traits/{trait}", s.removeTrait)

	s.route("GET /v1/ports", s.listPorts)
	s.route("GET /v1/ports/detail", s.listPorts)
	s.route("POST /v1/ports", s.createPort)
	s.route("PATCH /v1/ports/{port}", s.patchPort)
	s.route("DELETE /v1/ports/{port}", s.deletePort)

	s.route("POST /v1/continue_inspection", s.continueInspection)
}

// handler answers one call; an error becomes Ironic's error body.
type handler func(w http.ResponseWriter, r *http.Request) error

func (s *Server) route(pattern string, h handler) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if s.opts.Delay > 0 && !pace.Wait(r.Context(), s.opts.Delay) {
			return
		}
		if err := checkVersion(w.Header(), r); err != nil {
			writeError(w, err)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if err := h(w, r); err != nil {
			writeError(w, err)
		}
	})
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Close abandons power changes under way and waits until nobody calls OnPower
// any more. The server answers on; its nodes keep their power.
func (s *Server) Close() {
	s.close.Do(func() { close(s.stop) })
	s.pending.Wait()
}
