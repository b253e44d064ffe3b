package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
)

// When a peer refuses ramdisks (docs/design.md#ramdisk-port).
const (
	// proveEvery is between the beginnings of two proofs that a document could be committed,
	// and proveLimit what one may take.
	proveEvery = time.Second
	proveLimit = 1500 * time.Millisecond
	// proofsMissed is how many in a row have failed when ramdisks are refused: after 2 to 6
	// seconds. A change of leader takes less, and a ramdisk that calls meanwhile waits.
	proofsMissed = 3
)

// RamdiskServer answers ramdisks on one listener, until it is ended by one of these.
type RamdiskServer interface {
	// Shutdown takes no more calls, and waits for answers under way.
	Shutdown(ctx context.Context) error
	// Close ends connections that were not answered, too.
	Close() error
}

// RamdiskPort is where ramdisks alone call. It listens while this peer can commit their
// documents, and is closed while it cannot: a ramdisk with a list of URLs goes to the next one
// when its connection is refused or breaks, and for no other reason. Where a document was
// committed and its answer broke off, the next peer knows it by its hash. Proof, Open and
// Logger must be set. Run is called once; the methods may be called concurrently.
type RamdiskPort struct {
	// Proof returns nil if a document can be committed now.
	Proof func(ctx context.Context) error
	// Open begins to listen and to answer.
	Open    func(ctx context.Context) (RamdiskServer, error)
	Address string // by the configuration
	Logger  *slog.Logger

	mu      sync.Mutex
	missed  int // proofs in a row
	why     error
	server  RamdiskServer // nil while the port is closed
	refused int           // times that it was closed for want of proofs
	ended   bool
}

// Run opens and closes the port until ctx ends. Answers under way may end then.
func (p *RamdiskPort) Run(ctx context.Context) {
	failing := logs.Limit(p.Logger)
	for range pace.Every(ctx, proveEvery) {
		proving, cancel := context.WithTimeout(ctx, proveLimit)
		err := p.Proof(proving)
		cancel()
		if ctx.Err() != nil {
			break
		}
		if server := p.countProof(err); server != nil {
			p.Logger.Warn("ramdisk port closed, ramdisks call the next host", "address", p.Address, "reason", err)
			p.warnClose(server.Close())
		}
		if err != nil || p.listens() {
			continue
		}
		if err := p.open(ctx); err != nil {
			failing.Warn("open ramdisk port failed, retrying", "address", p.Address, "err", err)
			continue
		}
		p.Logger.Info("ramdisk port opened", "address", p.Address)
	}
	p.Stop(context.WithoutCancel(ctx), drainLimit)
}

// countProof counts a proof that was made, or failed, and takes the server away that must end.
func (p *RamdiskPort) countProof(err error) (end RamdiskServer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.missed = 0
		return nil
	}
	p.missed++
	p.why = err
	if p.missed < proofsMissed || p.server == nil {
		return nil
	}
	p.refused++
	end, p.server = p.server, nil
	return end
}

func (p *RamdiskPort) listens() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server != nil
}

func (p *RamdiskPort) open(ctx context.Context) error {
	server, err := p.Open(ctx)
	p.mu.Lock()
	if p.why = err; err == nil && !p.ended {
		p.server, server = server, nil
	}
	p.mu.Unlock()
	if err == nil && server != nil { // the peer ended meanwhile
		return server.Close()
	}
	return err
}

// Stop closes the port for good. Answers under way have so long to end.
func (p *RamdiskPort) Stop(ctx context.Context, limit time.Duration) {
	p.mu.Lock()
	server := p.server
	p.server, p.ended = nil, true
	p.mu.Unlock()
	if server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if limit <= 0 || server.Shutdown(ctx) != nil {
		p.warnClose(server.Close())
	}
}

func (p *RamdiskPort) warnClose(err error) {
	if err != nil && !errors.Is(err, net.ErrClosed) {
		p.Logger.Warn("close ramdisk port failed", "address", p.Address, "err", err)
	}
}

// Doubted reports whether the last proof failed.
func (p *RamdiskPort) Doubted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.missed > 0
}

// warnings say that ramdisks are refused, and why; none for a nil port.
func (p *RamdiskPort) warnings() []api.Warning {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := api.Warning{Code: "ramdisks_refused", Text: fmt.Sprintf("ramdisks cannot call %s: %v", p.Address, p.why),
		Remedy: "stop what has the port, or write another one as api.ramdisk_listen; it is tried again each second"}
	switch {
	case p.server != nil || p.why == nil || p.ended:
		return nil
	case p.missed >= proofsMissed:
		w.Text = fmt.Sprintf("connections to %s are refused, where ramdisks call: their documents cannot be committed: %v",
			p.Address, p.why)
		w.Remedy = "none is needed where the other hosts take them; " + doctor.AskPeers + " says what does not get through"
	case p.missed > 0: // the peer starts
		return nil
	}
	return []api.Warning{w}
}

// register adds the figures of the port; of a nil one there are none.
func (p *RamdiskPort) register(f *health.Figures) {
	if p == nil {
		return
	}
	f.Flag("ramdisk_port_open",
		"1 while this peer takes documents at api.ramdisk_listen, 0 while it refuses connections there.", p.listens)
	f.Counter("ramdisk_port_refusals_total",
		"Times that this peer closed api.ramdisk_listen because it could not commit documents.", func() float64 {
			p.mu.Lock()
			defer p.mu.Unlock()
			return float64(p.refused)
		})
}

// handler hands documents to next. While the last proof failed, an answer of 503 would have the
// ramdisk come again to this peer: its connection ends in the place of that, and it goes on.
func (p *RamdiskPort) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch strings.TrimSuffix(r.URL.Path, "/") {
		case "/v1/continue", "/v1/continue_inspection":
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			// The caller is all there is to tell.
			_, _ = fmt.Fprintln(w, `{"error":{"message":"Only ramdisks call here, with POST; all else is at api.listen"}}`)
			return
		}
		answer := &cutAnswer{ResponseWriter: w, cuts: p.Doubted}
		next.ServeHTTP(answer, r)
		if answer.cut {
			panic(http.ErrAbortHandler) // which closes the connection, and is no error
		}
	})
}

// cutAnswer writes an answer, unless it is a 503 that is to break off.
type cutAnswer struct {
	http.ResponseWriter
	cuts func() bool
	cut  bool
}

// WriteHeader implements http.ResponseWriter.
func (a *cutAnswer) WriteHeader(status int) {
	if a.cut = a.cut || status == http.StatusServiceUnavailable && a.cuts(); !a.cut {
		a.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (a *cutAnswer) Write(b []byte) (int, error) {
	if a.cut {
		return len(b), nil
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *cutAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// TakesDocuments returns nil if this peer could commit a ramdisk's document now: its session in
// the log was renewed a moment ago, and a majority confirms who leads.
func (c *Core) TakesDocuments(ctx context.Context) error {
	if time.Until(c.Session.Deadline()) <= 0 {
		return errors.New("this peer's session in the log was not renewed")
	}
	_, err := c.Store.Read(ctx)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("no majority confirmed within %v who leads", proveLimit)
	}
	return err
}
