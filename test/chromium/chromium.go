// Package chromium drives a headless Chromium for the tests of the page: over the
// DevTools protocol on two pipes, which needs no library and no port.
package chromium

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Bounds of what is asked of the browser.
const (
	callLimit  = 30 * time.Second
	closeLimit = 10 * time.Second
	maxMessage = 64 << 20 // bytes: screenshots are long
)

// ErrMissing tells that this machine has no Chromium.
var ErrMissing = errors.New("chromium is not installed: apt-get install chromium")

// Browser is a running Chromium. It may be used concurrently.
type Browser struct {
	cmd     *exec.Cmd
	to      io.WriteCloser
	from    io.ReadCloser
	dir     string
	reading sync.WaitGroup

	mu    sync.Mutex // guards the rest, and writes to to
	last  int
	calls map[int]chan answer
	pages map[string]*Page // by session
	dead  error            // why nothing more is answered
}

// answer is what the browser says, to a call or of itself.
type answer struct {
	ID      int             `json:"id"`
	Session string          `json:"sessionId"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Start runs a Chromium with a profile of its own. It ends with Close.
func Start() (_ *Browser, err error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, ErrMissing
	}
	b := &Browser{calls: make(map[int]chan answer), pages: make(map[string]*Page)}
	if b.dir, err = os.MkdirTemp("", "trivet-chromium-"); err != nil {
		return nil, fmt.Errorf("profile of the browser: %w", err)
	}
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(b.dir))
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), ourOut.Close(), os.RemoveAll(b.dir))
	}
	b.cmd = exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--force-color-profile=srgb",
		"--remote-debugging-pipe", "--user-data-dir="+b.dir, "about:blank")
	b.cmd.ExtraFiles = []*os.File{theirIn, theirOut} // descriptors 3 and 4
	err = b.cmd.Start()
	err = errors.Join(err, theirIn.Close(), theirOut.Close())
	b.to, b.from = ourOut, ourIn
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", path, err), ourIn.Close(), ourOut.Close(), os.RemoveAll(b.dir))
	}
	b.reading.Go(b.read)
	return b, nil
}

// Close ends the browser and removes its profile.
func (b *Browser) Close() error {
	limited, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	_ = b.call(limited, "", "Browser.close", nil, nil) // one that does not answer is killed
	closed := b.to.Close()
	killed := time.AfterFunc(closeLimit, func() { _ = b.cmd.Process.Kill() }) // of a process that has ended it is no error
	// its exit code says nothing: Browser.close kills parts of it
	_ = b.cmd.Wait()
	killed.Stop()
	b.reading.Wait()
	return errors.Join(closed, b.from.Close(), os.RemoveAll(b.dir))
}

// read hands on what the browser says until it says no more.
func (b *Browser) read() {
	lines := bufio.NewScanner(b.from)
	lines.Buffer(nil, maxMessage)
	lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		for i, c := range data {
			if c == 0 {
				return i + 1, data[:i], nil
			}
		}
		return 0, nil, nil
	})
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			continue // of a newer protocol
		}
		b.mu.Lock()
		waiting, page := b.calls[a.ID], b.pages[a.Session]
		delete(b.calls, a.ID)
		b.mu.Unlock()
		switch {
		case waiting != nil:
			waiting <- a
		case page != nil:
			page.heard(a.Method, a.Params)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead = errors.Join(errors.New("the browser has ended"), lines.Err())
	for _, waiting := range b.calls {
		close(waiting)
	}
	clear(b.calls)
}

// call sends a command and decodes its result into out, unless that is nil.
func (b *Browser) call(ctx context.Context, session, method string, params map[string]any, out any) error {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	reply := make(chan answer, 1)
	b.mu.Lock()
	b.last++
	id, dead := b.last, b.dead
	message := map[string]any{"id": id, "method": method}
	if params != nil {
		message["params"] = params
	}
	if session != "" {
		message["sessionId"] = session
	}
	text, err := json.Marshal(message)
	if err = errors.Join(dead, err); err == nil {
		b.calls[id] = reply
		_, err = b.to.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case a, ok := <-reply:
		switch {
		case !ok:
			return fmt.Errorf("%s: the browser has ended", method)
		case a.Error != nil:
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		case out != nil:
			return json.Unmarshal(a.Result, out)
		}
		return nil
	case <-limited.Done():
		b.mu.Lock()
		delete(b.calls, id)
		b.mu.Unlock()
		return fmt.Errorf("%s: %w", method, limited.Err())
	}
}

// Page is one tab.
type Page struct {
	b       *Browser
	session string
	target  string

	mu     sync.Mutex // guards the rest
	errors []string   // of its console
}

// Open opens a tab that shows nothing yet.
func (b *Browser) Open(ctx context.Context) (*Page, error) {
	var target struct{ TargetID string }
	if err := b.call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return nil, err
	}
	var attached struct{ SessionID string }
	if err := b.call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true},
		&attached); err != nil {
		return nil, err
	}
	p := &Page{b: b, session: attached.SessionID, target: target.TargetID}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		if err := p.Do(ctx, domain+".enable", nil, nil); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Close closes the tab.
func (p *Page) Close(ctx context.Context) error {
	p.b.mu.Lock()
	delete(p.b.pages, p.session)
	p.b.mu.Unlock()
	return p.b.call(ctx, "", "Target.closeTarget", map[string]any{"targetId": p.target}, nil)
}

// Do sends a command of the protocol to the tab.
func (p *Page) Do(ctx context.Context, method string, params map[string]any, out any) error {
	return p.b.call(ctx, p.session, method, params, out)
}

// heard notes what the console of the tab shows as an error.
func (p *Page) heard(method string, params json.RawMessage) {
	var said struct {
		Type   string // of a call of the console
		Args   []struct{ Description, Value any }
		Entry  struct{ Level, Text, URL string }
		Thrown struct {
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	if json.Unmarshal(params, &said) != nil {
		return
	}
	text := ""
	switch {
	case method == "Runtime.consoleAPICalled" && said.Type == "error":
		text = fmt.Sprint(said.Args)
	case method == "Log.entryAdded" && said.Entry.Level == "error":
		text = said.Entry.Text + " " + said.Entry.URL
	case method == "Runtime.exceptionThrown":
		text = said.Thrown.Text + " " + said.Thrown.Exception.Description
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors = append(p.errors, text)
}

// Errors returns what the console showed as errors since the last call.
func (p *Page) Errors() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.errors
	p.errors = nil
	return out
}

// Navigate shows an address.
func (p *Page) Navigate(ctx context.Context, url string) error {
	var out struct{ ErrorText string }
	if err := p.Do(ctx, "Page.navigate", map[string]any{"url": url}, &out); err != nil {
		return err
	}
	if out.ErrorText != "" {
		return fmt.Errorf("navigate to %s: %s", url, out.ErrorText)
	}
	return nil
}

// Eval evaluates a JavaScript expression, waits for its promise if it is one, and
// decodes the value into out, unless that is nil.
func (p *Page) Eval(ctx context.Context, expression string, out any) error {
	var result struct {
		Result struct{ Value json.RawMessage }
		Thrown *struct {
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	params := map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}
	if err := p.Do(ctx, "Runtime.evaluate", params, &result); err != nil {
		return err
	}
	if result.Thrown != nil {
		return fmt.Errorf("evaluate %.80s: %s %s", expression, result.Thrown.Text, result.Thrown.Exception.Description)
	}
	if out == nil || result.Result.Value == nil {
		return nil
	}
	return json.Unmarshal(result.Result.Value, out)
}

// Size gives the tab a size in CSS pixels.
func (p *Page) Size(ctx context.Context, width, height int, mobile bool) error {
	return p.Do(ctx, "Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}, nil)
}

// Dark has the tab prefer dark colours, or light ones.
func (p *Page) Dark(ctx context.Context, on bool) error {
	value := "light"
	if on {
		value = "dark"
	}
	return p.Do(ctx, "Emulation.setEmulatedMedia",
		map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": value}}}, nil)
}

// Screenshot returns what the tab shows as a PNG; of a whole page also what is below.
func (p *Page) Screenshot(ctx context.Context, whole bool) ([]byte, error) {
	var out struct{ Data string }
	if err := p.Do(ctx, "Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": whole},
		&out); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(out.Data)
}

// Press presses keys one after another: names as in KeyboardEvent.key, or single
// characters.
func (p *Page) Press(ctx context.Context, keys ...string) error {
	codes := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, " ": 32}
	for _, key := range keys {
		params := map[string]any{"type": "keyDown", "key": key, "windowsVirtualKeyCode": codes[key]}
		switch {
		case key == "Enter":
			params["text"] = "\r"
		case len(key) == 1:
			params["text"] = key
			if codes[key] == 0 {
				params["windowsVirtualKeyCode"] = int(strings.ToUpper(key)[0])
			}
		}
		if err := p.Do(ctx, "Input.dispatchKeyEvent", params, nil); err != nil {
			return err
		}
		params["type"] = "keyUp"
		delete(params, "text")
		if err := p.Do(ctx, "Input.dispatchKeyEvent", params, nil); err != nil {
			return err
		}
	}
	return nil
}
