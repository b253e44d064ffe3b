//go:build e2e

package uitest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/chromium"
	"github.com/trivet-ha/trivet/test/floating"
	sandbox "github.com/trivet-ha/trivet/test/sandbox/site"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// limit bounds what the page shows of a change: an introspection takes seconds.
const limit = 30 * time.Second

// site is a cluster in this process.
type site struct {
	*sandbox.Sandbox
	front *floating.Address
}

// killLeader kills the peer that leads. It is dead until what is returned is called:
// a page on a busy host may need longer than a service manager does.
func (s *site) killLeader(t *testing.T) (revive func()) {
	t.Helper()
	start, err := s.KillLeader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func openSite(t *testing.T, nodes int) *site {
	t.Helper()
	return openSiteOf(t, sandbox.Options{Nodes: nodes})
}

func openSiteOf(t *testing.T, o sandbox.Options) *site {
	t.Helper()
	o.Tell = func(string, ...any) {}
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	defer cancel()
	made, err := sandbox.New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Sandbox: made}
	var urls []string
	for _, p := range made.Peers() {
		urls = append(urls, p.URL)
	}
	if s.front, err = floating.Open(urls); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.front.End()
		if err := made.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// tab is what the browser shows, for a test.
type tab struct {
	*chromium.Page
	t *testing.T
}

// browse opens the page of an address.
func browse(t *testing.T, address string) *tab {
	t.Helper()
	b, err := chromium.Start()
	if errors.Is(err, chromium.ErrMissing) {
		testenv.Missing(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	page, err := b.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := &tab{page, t}
	t.Cleanup(func() {
		if t.Failed() {
			out.picture("failed-" + t.Name())
		}
	})
	out.sized(1280, 900)
	out.do(page.Navigate(t.Context(), address))
	return out
}

func (p *tab) do(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *tab) sized(width, height int) {
	p.t.Helper()
	p.do(p.Size(p.t.Context(), width, height, width < 600))
}

// eval returns the value of an expression as text.
func (p *tab) eval(expression string, args ...any) string {
	p.t.Helper()
	var out any
	p.do(p.Eval(p.t.Context(), fmt.Sprintf(expression, args...), &out))
	return fmt.Sprint(out)
}

// text is what an element shows, "" if there is none.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return p.eval(`(document.querySelector(%q) || {}).innerText || ""`, selector)
}

// shows waits until an element shows a text.
func (p *tab) shows(selector, want string) {
	p.t.Helper()
	testwait.Within(p.t, limit, fmt.Sprintf("%s with %q", selector, want), func() error {
		if got := p.text(selector); !strings.Contains(got, want) {
			return fmt.Errorf("it shows %.300q", got)
		}
		return nil
	})
}

// holds waits until an expression is true.
func (p *tab) holds(what, expression string, args ...any) {
	p.t.Helper()
	testwait.Within(p.t, limit, what, func() error {
		if got := p.eval(expression, args...); got != "true" {
			return fmt.Errorf("%s is %s", expression, got)
		}
		return nil
	})
}

// press presses keys.
func (p *tab) press(keys ...string) {
	p.t.Helper()
	p.do(p.Press(p.t.Context(), keys...))
}

// writes types a text into what has the focus.
func (p *tab) writes(text string) {
	p.t.Helper()
	p.press(strings.Split(text, "")...)
}

// tabTo presses Tab until what has the focus shows a text, as a person without a
// mouse does.
func (p *tab) tabTo(want string) {
	p.t.Helper()
	const most = 60
	for range most {
		if strings.Contains(p.eval(`document.activeElement.innerText || document.activeElement.ariaLabel || ""`), want) {
			return
		}
		p.press("Tab")
	}
	p.t.Fatalf("Tab does not lead to %q within %d keys", want, most)
}

// quiet fails the test if the console showed an error that is none of those allowed.
func (p *tab) quiet(allowed ...string) {
	p.t.Helper()
errors:
	for _, text := range p.Errors() {
		for _, a := range allowed {
			if strings.Contains(text, a) {
				continue errors
			}
		}
		p.t.Errorf("the console shows: %s", text)
	}
}

// picture keeps what the tab shows where TRIVET_UI_PICTURES says, for people to look
// at.
func (p *tab) picture(name string) []byte {
	p.t.Helper()
	png, err := p.Screenshot(context.WithoutCancel(p.t.Context()), false) // also after the test
	p.do(err)
	if dir := os.Getenv("TRIVET_UI_PICTURES"); dir != "" {
		p.do(os.MkdirAll(dir, 0o755))
		p.do(os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
	}
	return png
}
