package cli

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/cli/term"
)

// kuryrArgs are those of the container in Kuryr's documentation, and what its image
// adds.
var kuryrArgs = []string{"elector", "--id=host-1", "--election=kuryr-controller", "--http=127.0.0.1:0",
	"--election-namespace=kube-system", "--ttl=5s"}

// TestElectorIsRefused says what is wrong with the words of a candidate.
func TestElectorIsRefused(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"elector"}, "--election"},
		{[]string{"elector", "--election=A"}, "election \"A\""},
		{[]string{"elector", "--election=a", "--election-namespace=b.c"}, "namespace \"b.c\""},
		{[]string{"elector", "--election=a", "--id="}, "--id"},
		{[]string{"elector", "--election=a", "--ttl=500ms"}, "--ttl 500ms"},
		{[]string{"elector", "--election=a", "--mirror=pods"}, "--mirror pods"},
		{[]string{"elector", "--election=a", "--mirror=lease"}, "which cluster"},
		{[]string{"elector", "--election=a", "--mirror=lease", "--kubeconfig=/nonexistent", "--use-cluster-credentials"},
			"which cluster"},
		{[]string{"elector", "--election=a", "--mirror=lease", "--kubeconfig=/nonexistent"}, "kubeconfig"},
	} {
		var out, errw bytes.Buffer
		if code := Main(c.args, strings.NewReader(""), &out, &errw); code != term.ExitUsage ||
			!strings.Contains(errw.String(), c.want) {
			t.Errorf("%v: exit %d, %s; want %q", c.args, code, &errw, c.want)
		}
	}
}

// TestElectorTakesOldArguments, and tells of servers that lend nothing.
func TestElectorTakesOldArguments(t *testing.T) {
	for status, want := range map[int]int{http.StatusNotFound: term.ExitNotFound, http.StatusBadRequest: term.ExitUsage,
		http.StatusUnauthorized: term.ExitNotAuthorised} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"error":{"message":"no"}}`)) // the client is gone otherwise
		}))
		args := append([]string{"--server=" + srv.URL, "--use-cluster-credentials", "--logtostderr", "--v=4",
			"--stderrthreshold=1", "--insecure-skip-tls-verify"}, kuryrArgs[1:]...)
		var out, errw bytes.Buffer
		if code := Main(append(kuryrArgs[:1:1], args...), strings.NewReader(""), &out, &errw); code != want {
			t.Errorf("%d: exit %d, want %d: %s", status, code, want, &errw)
		}
		srv.Close()
	}
}

// TestElectorEndsWhenItIsTold, also while nobody answers it.
func TestElectorEndsWhenItIsTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer srv.Close()
	var out, errw bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &out, Err: &errw}}
	if code := p.run(ctx, append(kuryrArgs[:len(kuryrArgs):len(kuryrArgs)], "--server="+srv.URL)); code != term.ExitOK {
		t.Errorf("exit %d: %s", code, &errw)
	}
}
