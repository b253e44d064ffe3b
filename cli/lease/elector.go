package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
	leaseclient "github.com/trivet-ha/trivet/client/lease"
	"github.com/trivet-ha/trivet/internal/portholder"
	"github.com/trivet-ha/trivet/lease/elector"
	electorkube "github.com/trivet-ha/trivet/lease/elector/kube"
	"github.com/trivet-ha/trivet/lease/elector/sidecar"
)

// leastElectorTTL is the shortest that any cluster takes; what is safe with the timing
// of one it says itself.
const leastElectorTTL = time.Second

// electorDrain bounds the wait for answers under way at the end.
const electorDrain = 500 * time.Millisecond

// Values of --mirror.
const (
	mirrorLease     = "lease"
	mirrorEndpoints = "endpoints"
)

// electorFlags are what a person says of an election.
type electorFlags struct {
	web                 *servers.Flags
	election, namespace string
	id                  string
	ttl                 time.Duration
	http                string
	inCluster           bool
	kubeconfig          string
	mirror              []string
}

// Elector is 'trivet elector'. newLog makes the log that the candidate
// writes, and what its end waits for.
func Elector(t *term.Terminal, local func(login bool) (string, error),
	newLog func() (log *slog.Logger, flush func())) *cobra.Command {
	var f electorFlags
	c := &cobra.Command{
		Use:   "elector --election NAME",
		Short: "Stand for election for another program, and tell it who leads",
		Long: "Hold the lease elector.NAMESPACE.NAME of the cluster, and answer {\"name\": WHO HAS IT} over HTTP on every path: what the sidecar leader-elector\n" +
			"did with an Endpoints object, and with its flags, so that the arguments of a container stay as they are. The lease is asked for at the APIs of\n" +
			"--server, or $TRIVET_SERVER, whose lease.enabled is set.\n\n" +
			"Its own id it names until a third of --ttl before the cluster may give the lease to another, counted from before it was asked for; \"\" when\n" +
			"the leader is not known. INT and TERM give the lease back. Flags of leader-elector that are about Kubernetes' API or its log are taken, and not\n" +
			"used unless there is --mirror.\n\n" +
			"--mirror shows the election in Kubernetes, for programs that read it there: in the Lease NAME, in the annotation of the Endpoints NAME, or both.",
		Example: "  trivet elector --server http://h1:5050,http://h2:5050,http://h3:5050 \\\n    --election kuryr-controller --election-namespace kube-system --ttl 5s --http 0.0.0.0:16401",
	}
	host, _ := os.Hostname() // without one the flag must be given
	flags := c.Flags()
	f.web = servers.New(t, local, flags)
	flags.StringVar(&f.election, "election", "", "name of the election; the same for all candidates")
	flags.StringVar(&f.namespace, "election-namespace", "default", "namespace of the election")
	flags.StringVar(&f.id, "id", host, "whom to name when this candidate is elected; another for each")
	flags.DurationVar(&f.ttl, "ttl", 10*time.Second,
		"how long the lease lasts unless it is renewed, which a candidate does each third")
	flags.StringVar(&f.http, "http", "", "address to answer on, as 0.0.0.0:4040; empty: nowhere")
	flags.StringSliceVar(&f.mirror, "mirror", nil, "show the election in Kubernetes: lease, endpoints, or both")
	term.Complete(c, "mirror", mirrorLease, mirrorEndpoints)
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "--mirror: kubeconfig of the cluster")
	flags.BoolVar(&f.inCluster, "use-cluster-credentials", false, "--mirror: the cluster whose pod this is")
	unusedFlags(flags)
	c.RunE = func(c *cobra.Command, _ []string) error {
		log, flush := newLog()
		defer flush()
		return elect(c.Context(), t, f, log)
	}
	return c
}

// unusedFlags takes those of leader-elector and of its log that mean nothing here.
func unusedFlags(flags *pflag.FlagSet) {
	var nowhere string
	take := func(fallback string, names ...string) {
		for _, name := range names {
			flags.StringVar(&nowhere, name, "", "not used")
			flags.Lookup(name).NoOptDefVal = fallback
			flags.Lookup(name).Hidden = true
		}
	}
	take("", "api-version", "certificate-authority", "client-certificate", "client-key", "cluster", "context", "namespace",
		"password", "token", "user", "username",
		"log-backtrace-at", "log-dir", "log_backtrace_at", "log_dir", "stderrthreshold", "v", "vmodule")
	take("true", "alsologtostderr", "insecure-skip-tls-verify", "logtostderr", "match-server-version")
}

// check finds what is wrong with the flags, and names the lease.
func (f electorFlags) check() (lease string, err error) {
	if f.election == "" {
		return "", term.Usage("--election: say which")
	}
	if lease, err = sidecar.LeaseName(f.namespace, f.election); err != nil {
		return "", term.Usage("--election, --election-namespace: %w", err)
	}
	if f.id == "" || len(f.id) > 256 {
		return "", term.Usage("--id: say whom to name, in 1 to 256 bytes")
	}
	if f.ttl < leastElectorTTL {
		return "", term.Usage(
			"--ttl %v: no candidate can renew that in time; a lease lasts at least 4.5s with raft.timing normal, 3.3s with fast",
			f.ttl)
	}
	for _, what := range f.mirror {
		if what != mirrorLease && what != mirrorEndpoints {
			return "", term.Usage("--mirror %s: it is lease, endpoints, or both", what)
		}
	}
	if len(f.mirror) > 0 && (f.kubeconfig == "") != f.inCluster {
		return "", term.Usage("--mirror: which cluster? Write --kubeconfig FILE or --use-cluster-credentials")
	}
	return lease, nil
}

// elect stands for election until a signal.
func elect(ctx context.Context, t *term.Terminal, f electorFlags, log *slog.Logger) error {
	lease, err := f.check()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	candidate, err := f.candidate(lease, log)
	if err != nil {
		return err
	}
	var mirror *electorkube.Mirror // nil without --mirror
	if len(f.mirror) > 0 {
		mirror, err = electorkube.Open(electorkube.Options{
			Kubeconfig: f.kubeconfig, Namespace: f.namespace, Name: f.election, TTL: f.ttl,
			Lease: slices.Contains(f.mirror, mirrorLease), Endpoints: slices.Contains(f.mirror, mirrorEndpoints),
			Now: leaseclient.Boottime, Wall: t.Wall, Logger: log,
		})
		if err != nil {
			return term.Fail(term.ExitUsage,
				"--kubeconfig names a file; --use-cluster-credentials is for a pod with a service account", "--mirror: %w", err)
		}
	}
	closeEndpoint, err := f.serve(ctx, candidate, log)
	if err != nil {
		return err
	}
	var mirroring sync.WaitGroup
	shown, hide := context.WithCancel(ctx)
	if mirror != nil {
		defer mirror.Close()
		mirroring.Go(func() { mirror.Run(shown, candidate.Mine) })
	}
	err = candidate.Run(ctx)
	hide()
	mirroring.Wait()
	if client.HasStatus(err, http.StatusBadRequest) {
		err = term.Fail(term.ExitUsage, "nothing was raised silently: write a --ttl that the cluster takes", "%w", err)
	}
	return errors.Join(err, closeEndpoint())
}

// candidate is one that asks the servers of the flags.
func (f electorFlags) candidate(lease string, log *slog.Logger) (*sidecar.Candidate, error) {
	o, err := f.web.Options()
	if err != nil {
		return nil, err
	}
	reader, err := client.New(o)
	if err != nil {
		return nil, servers.Error(err)
	}
	// A candidate of our id that is there still is our predecessor in this place.
	acquirer, err := leaseclient.New(leaseclient.Options{API: o, Name: lease, Holder: f.id, TTL: f.ttl, Takeover: true})
	if err != nil {
		return nil, term.Usage("%w", err)
	}
	return sidecar.New(sidecar.Options{ID: f.id, Lease: lease, TTL: f.ttl, Acquirer: acquirer, Reader: reader,
		Now: leaseclient.Boottime, Logger: log}), nil
}

// serve answers on --http, if there is any, until the function that it returns is
// called.
func (f electorFlags) serve(ctx context.Context, source elector.Source, log *slog.Logger) (end func() error,
	err error) {
	if f.http == "" {
		return func() error { return nil }, nil
	}
	lc := net.ListenConfig{}
	ln, err := lc.Listen(ctx, "tcp", f.http)
	if name := portholder.InTheWay(err); name != "" {
		return nil, term.Fail(term.ExitFailed, "stop that program, or choose another port", "--http: %w by %s", err, name)
	}
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	srv := elector.NewEndpoint(
		elector.EndpointOptions{Election: f.namespace + "/" + f.election, Source: source, Now: leaseclient.Boottime,
			Logger: log}).Server(api.Identified)
	log.Info("elector endpoint serving", "address", ln.Addr(), "election", f.election)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := srv.Serve(elector.Timed(ln, leaseclient.Boottime)); !errors.Is(err, http.ErrServerClosed) {
			log.Error("serve elector endpoint failed", "err", err)
		}
	})
	return func() error {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), electorDrain)
		defer cancel()
		err := srv.Shutdown(limited)
		if err != nil { // a client keeps its connection open
			err = srv.Close()
		}
		serving.Wait()
		return err
	}, nil
}
