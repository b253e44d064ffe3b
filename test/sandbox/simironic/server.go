package simironic

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// maxPage is how many entries a list holds at most, as in Ironic.
const maxPage = 1000

// maxBody bounds the body of a request, in bytes.
const maxBody = 1 << 20

// Options are what a Server is made from. The zero value is an Ironic that
// switches power at once and tells nobody.
type Options struct {
	// PowerDelay is how long a power change takes. Meanwhile the node is locked
	// and refuses changes with 409, as under Ironic's conductor.
	PowerDelay time.Duration
	// PageSize bounds lists below Ironic's own 1,000; 0 does not.
	PageSize int
	// OnPower is told of every power change as soon as it is done, with the
	// target that was asked for, such as "rebooting". It must not block, and may
	// be called concurrently.
	OnPower func(node, target string)
}

// Server is the service: an http.Handler. All its methods may be called
// concurrently.
type Server struct {
	opts   Options
	mux    *http.ServeMux
	calls  map[string]*atomic.Int64 // by pattern; filled by New alone
	faults faults

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
	if o.PageSize <= 0 || o.PageSize > maxPage {
		o.PageSize = maxPage
	}
	s := &Server{
		opts: o, mux: http.NewServeMux(), calls: make(map[string]*atomic.Int64),
		nodes: newCollection[*node](), names: make(map[string]*node),
		ports: newCollection[*port](), address: make(map[string]*port),
		stop: make(chan struct{}),
	}
	s.routes()
	return s
}

func (s *Server) routes() {
	s.route("GET /{$}", s.root)
	s.route("GET /v1", s.version)
	s.route("GET /v1/{$}", s.version)

	s.route("GET /v1/nodes", s.listNodes)
	s.route("GET /v1/nodes/detail", s.listNodes)
	s.route("POST /v1/nodes", s.createNode)
	s.route("GET /v1/nodes/{node}", s.getNode)
	s.route("PATCH /v1/nodes/{node}", s.patchNode)
	s.route("DELETE /v1/nodes/{node}", s.deleteNode)
	s.route("GET /v1/nodes/{node}/validate", s.validate)
	s.route("GET /v1/nodes/{node}/management/boot_device", s.getBootDevice)
	s.route("PUT /v1/nodes/{node}/management/boot_device", s.setBootDevice)
	s.route("GET /v1/nodes/{node}/states", s.getStates)
	s.route("PUT /v1/nodes/{node}/states/power", s.setPower)
	s.route("PUT /v1/nodes/{node}/states/provision", s.setProvision)
	s.route("GET /v1/nodes/{node}/traits", s.listTraits)
	s.route("PUT /v1/nodes/{node}/traits/{trait}", s.addTrait)
	s.route("DELETE /v1/nodes/{node}/traits/{trait}", s.removeTrait)

	s.route("GET /v1/ports", s.listPorts)
	s.route("GET /v1/ports/detail", s.listPorts)
	s.route("POST /v1/ports", s.createPort)
	s.route("GET /v1/ports/{port}", s.getPort)
	s.route("PATCH /v1/ports/{port}", s.patchPort)
	s.route("DELETE /v1/ports/{port}", s.deletePort)

	s.route("POST /v1/continue_inspection", s.continueInspection)
}

// handler answers one call; an error becomes Ironic's error body.
type handler func(w http.ResponseWriter, r *http.Request) error

func (s *Server) route(pattern string, h handler) {
	count := new(atomic.Int64)
	s.calls[pattern] = count
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		if s.faults.strike(w, r) {
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

// Calls returns how many calls came in so far, by method and path with
// wildcards, such as "PUT /v1/nodes/{node}/states/power". Calls that a fault
// answered count too.
func (s *Server) Calls() map[string]int64 {
	out := make(map[string]int64)
	for pattern, count := range s.calls {
		if n := count.Load(); n > 0 {
			out[pattern] = n
		}
	}
	return out
}

// Close abandons power changes under way and waits until nobody calls OnPower
// any more. The server answers on; its nodes keep their power.
func (s *Server) Close() {
	s.close.Do(func() { close(s.stop) })
	s.pending.Wait()
}
