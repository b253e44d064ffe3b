package term

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// asked is a peer in memory, which keeps the last question.
type asked struct {
	last   string
	answer string
}

// RoundTrip implements http.RoundTripper.
func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = " " + string(text)
	}
	a.last = r.Method + " " + r.URL.RequestURI() + body
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(a.answer))}, nil
}

func (a *asked) peer() Peer {
	w := way{where: "here", base: onSocket, http: &http.Client{Transport: a}}
	return Peer{time.Minute, func() way { return w }}
}

// TestVerb: the words of a command become the question that its row declares.
func TestVerb(t *testing.T) {
	for _, c := range []struct {
		verb  Verb[[]string]
		words string
		asks  string
		shows string
	}{
		{Verb[[]string]{Use: "list", Method: "GET", Path: "/v1/tokens", Stale: true}, "", "GET /v1/tokens", "a b"},
		{Verb[[]string]{Use: "list", Method: "GET", Path: "/v1/tokens", Stale: true}, "--stale", "GET /v1/tokens?stale=1",
			"a b"},
		{Verb[[]string]{Use: "show", Method: "GET", Path: "/v1/firewall", Others: true}, "", "GET /v1/firewall?all=1", "a b"},
		{Verb[[]string]{Use: "show", Method: "GET", Path: "/v1/firewall", Others: true}, "--local", "GET /v1/firewall",
			"a b"},
		{Verb[[]string]{Use: "explain NODE|MAC", Method: "GET", Path: "/v1/explain/{NODE|MAC}"}, "a/b",
			"GET /v1/explain/a%2Fb", "a b"},
		{Verb[[]string]{Use: "safe [PEER]", Method: "GET", Path: "/v1/safe?peer={PEER}"}, "", "GET /v1/safe?peer=", "a b"},
		{Verb[[]string]{Use: "safe [PEER]", Method: "GET", Path: "/v1/safe?peer={PEER}"}, "a&b", "GET /v1/safe?peer=a%26b",
			"a b"},
		{Verb[[]string]{Use: "put KEY VALUE", Method: "PUT", Path: "/v1/settings/{KEY}",
			Input: func(args []string) any { return args[1:] }}, "k v", `PUT /v1/settings/k ["v"]`, "a b"},
	} {
		peer, shown := &asked{answer: `["a", "b"]`}, ""
		c.verb.Show = func(answer, _ []string) error {
			shown = strings.Join(answer, " ")
			return nil
		}
		command := c.verb.Command(peer.peer())
		command.SetArgs(strings.Fields(c.words))
		if err := command.ExecuteContext(t.Context()); err != nil || peer.last != c.asks || shown != c.shows {
			t.Errorf("%s %s: asked %q, want %q; shown %q, want %q; %v", c.verb.Use, c.words, peer.last, c.asks, shown, c.shows,
				err)
		}
	}
}

// TestVerbWithoutAnswer: what only changes something reads no answer, and says so.
func TestVerbWithoutAnswer(t *testing.T) {
	var talk bytes.Buffer
	on, peer := &Terminal{Err: &talk}, &asked{}
	command := Verb[None]{Use: "revoke ID", Method: "DELETE", Path: "/v1/tokens/{ID}",
		Show: on.Said("token %s is void")}.Command(peer.peer())
	command.SetArgs([]string{"3f"})
	if err := command.ExecuteContext(t.Context()); err != nil || talk.String() != "trivet: token 3f is void\n" ||
		peer.last != "DELETE /v1/tokens/3f" {
		t.Errorf("%v, said %q, asked %q", err, talk.String(), peer.last)
	}
}

// TestAsk: two answers may come in one piece.
func TestAsk(t *testing.T) {
	on := &Terminal{In: strings.NewReader("yes \nh1\nno\n"), Err: io.Discard}
	for _, c := range []struct {
		want string
		is   bool
	}{{"yes", true}, {"h1", true}, {"yes", false}, {"yes", false}} {
		if got := on.Ask("", c.want); got != c.is {
			t.Errorf("%q: %v", c.want, got)
		}
	}
}

// TestChosenOnce: a peer is chosen by the first call, and once.
func TestChosenOnce(t *testing.T) {
	n, peer := 0, &asked{answer: "{}"}
	chosen := Chosen(func() Peer { n++; return peer.peer() })
	if n != 0 {
		t.Error("it was chosen before the flags are parsed")
	}
	for range 2 {
		if err := chosen.Within(time.Second).Call(t.Context(), "GET", "/v1/status", nil, nil); err != nil || n != 1 {
			t.Errorf("%v, chosen %d times", err, n)
		}
	}
}
