//go:build e2e

package labtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"

	"github.com/trivet-ha/trivet/haconfig"
	"github.com/trivet-ha/trivet/internal/kubeclient"
	"github.com/trivet-ha/trivet/test/labtest/kubelab"
	"github.com/trivet-ha/trivet/test/labtest/wiretap"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// haNamespace is whose components are looked after, by three peers.
const haNamespace = "components"

// haSettings are those of the peers.
const haSettings = `haconfig:
  kubeconfigs: [only=KUBECONFIG0]
  listen: ADDRESS:PORT
  via: endpoints
  default_not_ready_toleration_seconds: 60
  disruption_budgets: true
  namespaces:
  - name=haconfig-shop tolerance=zone zones=z1+z2+z3+z4+z5
  - name=haconfig-few tolerance=zone zones=z1+z2
`

// haSite is three peers that answer a real API server about components.
type haSite struct {
	*Lab
	kube *kubelab.Cluster
	api  *http.Client
	url  string
	port string // of the webhooks
}

// newHASite starts the peers, each with an address of its own: an EndpointSlice
// takes none of loopback's. Tests that run at the same time have networks of their own,
// of three octets.
func newHASite(t testing.TB, network, settings string, clusters ...*kubelab.Cluster) *haSite {
	t.Helper()
	testenv.NeedRoot(t, "ip")
	s := &haSite{Lab: New(t)}
	_, s.port, _ = net.SplitHostPort(testenv.FreePort(t)) // it was made of both
	s.at(clusters[0])
	var words []string
	for i, k := range clusters {
		words = append(words, fmt.Sprintf("KUBECONFIG%d", i),
			k.User("system:serviceaccount:trivet:trivet-haconfig", "system:serviceaccounts", "system:serviceaccounts:trivet",
				"system:authenticated"))
	}
	s.furnish = func(p *Peer) {
		address := fmt.Sprintf("%s.%d", network, len(s.Peers)+1)
		ownAddress(t, address)
		_, port, _ := net.SplitHostPort(p.Cluster) // likewise
		p.Cluster = net.JoinHostPort(address, port)
		own := append([]string{"ADDRESS", address, "PORT", s.port}, words...)
		p.configure(strings.NewReplacer(own...).Replace(settings))
	}
	s.Trio("alpha", "bravo", "charlie")
	return s
}

// at has what follows ask the API server of a cluster.
func (s *haSite) at(k *kubelab.Cluster) {
	s.t.Helper()
	conf, err := kubeclient.Config(k.Kubeconfig())
	testenv.Must(s.t, err)
	s.api, err = rest.HTTPClientFor(conf)
	testenv.Must(s.t, err)
	s.kube, s.url = k, conf.Host
}

// ownAddress gives this host an address for the time of the test.
func ownAddress(t testing.TB, address string) {
	t.Helper()
	sh(t, "ip", "address", "replace", address+"/32", "dev", "lo")
	t.Cleanup(func() { sh(t, "ip", "address", "del", address+"/32", "dev", "lo") })
}

// register applies what the command prints, and waits until the API server asks.
func (s *haSite) register(flags ...string) {
	s.t.Helper()
	s.kube.Grant(s.Peers[0].Must("haconfig", "manifest", "--namespaces", "--disruption-budgets", flags))
	n := 0
	s.Eventually(kubelab.Limit, "what is created is changed", func() error {
		n++
		code, d, err := s.create(fmt.Sprintf("first-%d-%s", n, flags[1]))
		if err == nil && (code != http.StatusCreated || !asItShould(d)) {
			err = fmt.Errorf("code %d: replicas %v", code, d.Spec.Replicas)
		}
		return err
	})
	s.kube.Kubectl("delete", "deployments", "--all", "-n", haNamespace, "--wait=false")
}

// create makes a Deployment of one replica and returns what the API server says.
func (s *haSite) create(name string) (code int, d appsv1.Deployment, err error) {
	body := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q,"labels":{"%stype":"server"}},"spec":{"replicas":1,
"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"none.example.org/none:1"}]}}}}`, name, haconfig.DefaultPrefix)
	answer, err := s.api.Post(s.url+"/apis/apps/v1/namespaces/"+haNamespace+"/deployments", "application/json",
		bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, d, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode == http.StatusCreated {
		err = json.Unmarshal(text, &d)
	} else if err == nil {
		err = fmt.Errorf("code %d: %s", answer.StatusCode, text)
	}
	return answer.StatusCode, d, err
}

// asItShould reports whether a Deployment of create has its settings.
func asItShould(d appsv1.Deployment) bool {
	pod := d.Spec.Template.Spec
	return d.Spec.Replicas != nil && *d.Spec.Replicas == 2 && len(pod.TopologySpreadConstraints) == 2 &&
		len(pod.Tolerations) == 1
}

// stream creates Deployments one after the other until it is stopped or has made n,
// each every pause, and counts.
type stream struct {
	created, refused atomic.Int64
	unchanged        atomic.Int64
	why              atomic.Value // string: the last refusal
	done             sync.WaitGroup
}

func (s *haSite) stream(prefix string, n int, pause time.Duration) *stream {
	st := &stream{}
	st.why.Store("")
	st.done.Go(func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for i := range n {
			_, d, err := s.create(fmt.Sprintf("%s-%d", prefix, i))
			switch {
			case err != nil:
				st.refused.Add(1)
				st.why.Store(err.Error())
			case !asItShould(d):
				st.unchanged.Add(1)
			default:
				st.created.Add(1)
			}
			<-tick.C
		}
	})
	return st
}

// reached waits until a stream has tried so many.
func (s *haSite) reached(st *stream, n int) {
	s.t.Helper()
	s.Eventually(10*kubelab.Limit, fmt.Sprintf("%d creations", n), func() error {
		return atLeast(st.created.Load()+st.refused.Load()+st.unchanged.Load(), int64(n))
	})
}

// leadersWay is an address that leads to the webhook of whoever leads, as the floating IP does: this
// lab's peers share one network, in which it would be the address of all of them. While nobody
// leads, connections wait, as they would for an answer to ARP. When the leader is another all end:
// an API server keeps those that it does not need for a minute and a half.
func (s *haSite) leadersWay(t testing.TB) (address string) {
	t.Helper()
	const arpTimeout = 3 * time.Second // as the kernel's, when ARP has no answer
	var now atomic.Value               // address of the leader's webhook, "" while there is none
	now.Store("")
	way := wiretap.NewWay(t, func() string {
		_ = testwait.Try(t.Context(), arpTimeout, "a leader", func() error { // without one the connection ends
			if now.Load() == "" {
				return errors.New("none is known")
			}
			return nil
		})
		return now.Load().(string)
	})
	peers := slices.Clone(s.Peers)
	repeated(t, 50*time.Millisecond, func() {
		at := ""
		for _, p := range peers {
			if st, err := p.Status(); err == nil && st.Leader == p.Name {
				host, _, _ := net.SplitHostPort(p.Cluster) // furnish made it
				at = net.JoinHostPort(host, s.port)
			}
		}
		if now.Swap(at) != at {
			way.Drop()
		}
	})
	return way.Addr
}
