package kube

import (
	"net/http"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trivet-ha/trivet/haconfig"
)

// page is what a proxy answers, without a Status.
func page(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "default backend", code) }
}

// The answer of a proxy that has no route to the API server, or wants a login, is silence: what was
// read serves meanwhile, and a peer behind it cannot answer.
func TestProxysAnswerIsSilence(t *testing.T) {
	for _, code := range []int{http.StatusFound, http.StatusBadRequest, http.StatusNotFound,
		http.StatusMisdirectedRequest} {
		c, s, at := openOn(t)
		s.usual()
		if _, err := c.Surroundings(t.Context(), server1, "ns1"); err != nil || c.Ready() != nil {
			t.Fatal(err, c.Ready())
		}
		const getAsked = "GET /api/v1/namespaces/" + askedNamespace
		for _, key := range []string{getNamespace, listScalers, listNodes, getAsked,
			"GET /apis/autoscaling/v2/namespaces/" + askedNamespace + "/horizontalpodautoscalers"} {
			s.on(key, page(code))
		}
		for range silentAfter / askEvery {
			at.pass(askEvery)
			ask(t.Context(), c)
		}
		if c.Ready() == nil || c.Silent() == nil {
			t.Errorf("proxys-answer: of %d the peer counts as able to answer", code)
		}
		if around, err := c.Surroundings(t.Context(), server1, "ns1"); err != nil || around.Annotations["a"] != "b" {
			t.Errorf("proxys-answer: of %d what was read does not serve: %v", code, err)
		}
		s.on(getAsked, refuse(404, metav1.StatusReasonNotFound, "none"))
		s.on(listNodes, page(http.StatusTooManyRequests)) // as an API server says it
		ask(t.Context(), c)
		if err := c.Ready(); err != nil {
			t.Errorf("api-servers-answer: %v", err)
		}
	}
}

// A proxy's 404 does not say that an object is gone.
func TestProxysNotFoundIsNothingGone(t *testing.T) {
	c, s, _ := openOn(t)
	const registrations = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/r"
	const slices = "/apis/discovery.k8s.io/v1/namespaces/n/endpointslices/svc"
	for _, key := range []string{"GET " + registrations, "DELETE " + registrations, "GET " + slices, "DELETE " + slices,
		"DELETE /apis/policy/v1/namespaces/n/poddisruptionbudgets/b", "PATCH /apis/apps/v1/namespaces/n/deployments/d"} {
		s.on(key, page(http.StatusNotFound))
	}
	ctx, component := t.Context(), haconfig.Component{}
	component.Kind, component.Namespace, component.Name = "Deployment", "n", "d"
	budget := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "b"}}
	_, registration := c.Registration(ctx, "r")
	found, dropped := c.DropRegistration(ctx, "r", false)
	_, endpoints := c.Endpoints(ctx, "n", "svc")
	answers := map[string]error{
		"registration": registration, "deleted registration": dropped, "endpoints": endpoints,
		"deleted endpoints": c.DropEndpoints(ctx, haconfig.Endpoints{Namespace: "n", Service: "svc"}),
		"deleted budget":    c.DropBudget(ctx, budget),
		"component":         c.Touch(ctx, component),
	}
	for what, err := range answers {
		if found || err == nil || !strings.Contains(err.Error(), "could not find the requested resource") {
			t.Errorf("proxy-404: %s: %v", what, err)
		}
	}
}
