package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/trivet-ha/trivet/internal/kubeclient"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/lease/elector"
)

// writes is how often in a ttl the objects are written.
const writes = 3

// maxCall bounds one call to the API server.
const maxCall = 5 * time.Second

// Options say what is written, and where.
type Options struct {
	Kubeconfig      string // a file; "" means the cluster whose pod we are
	Namespace, Name string // of the objects
	Lease           bool   // write a Lease
	Endpoints       bool   // write the annotation of an Endpoints object
	TTL             time.Duration
	Now             elector.Clock // that of the claims
	Wall            func() time.Time
	Logger          *slog.Logger
}

// Mirror writes an election into Kubernetes. Its methods are for one goroutine.
type Mirror struct {
	o                  Options
	http               *http.Client
	core, coordination *rest.RESTClient
	seen               map[string]seenHolder // by resource: holders that are not ours
}

// Open reads the kubeconfig and sends nothing. The caller closes the mirror.
func Open(o Options) (*Mirror, error) {
	conf, err := kubeclient.Config(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	m := &Mirror{o: o, seen: make(map[string]seenHolder)}
	m.http, err = kubeclient.Clients(conf,
		kubeclient.Group{Client: &m.core, Version: corev1.SchemeGroupVersion, Kinds: corev1.AddToScheme},
		kubeclient.Group{Client: &m.coordination, Version: coordinationv1.SchemeGroupVersion,
			Kinds: coordinationv1.AddToScheme})
	return m, err
}

// Close ends the connections that carry no call.
func (m *Mirror) Close() { utilnet.CloseIdleConnectionsFor(m.http.Transport) }

// Run writes what mine says, as long as it says anything, until ctx ends. It logs once
// that it fails, and once that it works again.
func (m *Mirror) Run(ctx context.Context, mine func() elector.Claim) {
	failing := false
	for range pace.Every(ctx, m.o.TTL/writes) {
		if w := mine().At(m.o.Now()); w.Name != "" {
			err := m.Write(ctx, w)
			if (err != nil) != failing && ctx.Err() == nil {
				if failing = err != nil; failing {
					m.o.Logger.Warn("update Kubernetes leader record failed; the election itself is not affected", "name", m.o.Name,
						"err", err)
				} else {
					m.o.Logger.Info("Kubernetes leader record is current again", "name", m.o.Name)
				}
			}
		}
	}
}

// Write writes a claim that names us into each object, while it may be said, and
// unless a later leader or another election has written there.
func (m *Mirror) Write(ctx context.Context, w elector.Claim) error {
	var errs []error
	if m.o.Lease {
		errs = append(errs, m.write(ctx, w, kind{m.coordination, "leases", "Lease", leasePatch}))
	}
	if m.o.Endpoints {
		errs = append(errs, m.write(ctx, w, kind{m.core, "endpoints", "Endpoints", endpointsPatch}))
	}
	return errors.Join(errs...)
}

// kind is one of objects, and what one becomes.
type kind struct {
	client         *rest.RESTClient
	resource, name string
	patch          func(there *object, w elector.Claim, ttl time.Duration, renewed time.Time) (patch, error)
}

func (m *Mirror) write(ctx context.Context, w elector.Claim, k kind) error {
	what := k.resource + " " + m.o.Namespace + "/" + m.o.Name
	there, err := m.readObject(ctx, k)
	if err != nil {
		return fmt.Errorf("get %s: %w", what, err)
	}
	now := m.o.Now()
	if there != nil {
		if err := m.mayTake(there, k.resource, now); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	p, err := k.patch(there, w, m.o.TTL, m.o.Wall().Add(w.Asked-now))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	left := w.Until - now
	if left <= 0 {
		return fmt.Errorf("write %s: our time was over before it was read", what)
	}
	ctx, cancel := context.WithTimeout(kubeclient.Quiet(ctx), min(left, maxCall))
	defer cancel()
	if there == nil {
		p.APIVersion, p.Kind, p.Metadata.Name = k.client.APIVersion().String(), k.name, m.o.Name
	}
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	req := k.client.Post().SetHeader("Content-Type", "application/json")
	if there != nil {
		req = k.client.Patch(types.MergePatchType).Name(m.o.Name)
	}
	if err := req.Namespace(m.o.Namespace).Resource(k.resource).Body(body).MaxRetries(0).Do(ctx).Error(); err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

// readObject returns nil for what does not exist.
func (m *Mirror) readObject(ctx context.Context, k kind) (*object, error) {
	ctx, cancel := context.WithTimeout(kubeclient.Quiet(ctx), maxCall)
	defer cancel()
	there := &object{}
	err := kubeclient.JSON(ctx, k.client.Get().Namespace(m.o.Namespace).Resource(k.resource).Name(m.o.Name), there)
	if kubeclient.Gone(err) {
		return nil, nil
	}
	return there, err
}
