package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/test/chromium"
	"github.com/trivet-ha/trivet/test/floating"
)

// Goals of the page and of the streams of events behind it.
const (
	paintGoal     = 500.0 // ms until something is seen
	sentGoal      = 300.0 // KB until the table of 10,000 machines is there
	commitGoal    = 150.0 // ms from the request that makes an event until the page lists it
	reconnectGoal = 3.0   // s after the death of the leader
	streamsGoal   = 10.0  // % of a core
	idleGoal      = 1.0   // % of a core, of streams on which nothing comes
	costGoal      = 5.0   // % of the processor time of introspections
)

const (
	pagePaints  = 9
	pageCommits = 30
	pageLimit   = 30 * time.Second

	pageStreams = 500
	pageEvents  = 50 // a second
	pageRounds  = 3

	costTurns   = 6  // half of them with streams
	costStreams = 30 // pages that are open
)

func pageArea() Area {
	return Area{
		Name: "page",
		About: fmt.Sprintf("three processes and an Ironic in memory; a browser, and %d streams of %d events a second",
			pageStreams, pageEvents),
		Measure: measurePage,
	}
}

func measurePage(ctx context.Context, b *Bench) (err error) {
	s, err := newAPISite(ctx, b, "page", b.Nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return errors.Join(s.seen(ctx), s.streams(ctx), s.eventCost(ctx))
}

// seen measures what a person at a browser sees.
func (s *apiSite) seen(ctx context.Context) (err error) {
	browser, err := chromium.Start()
	if errors.Is(err, chromium.ErrMissing) {
		s.bench.Report.Skip("page.first_paint_ms", "ms", AtMost(paintGoal), err.Error())
		s.bench.Report.Skip("page.transferred_kb", "KB", AtMost(sentGoal), err.Error())
		s.bench.Report.Skip("page.commit_ms", "ms", AtMost(commitGoal), err.Error())
		s.bench.Report.Skip("page.reconnect_s", "s", AtMost(reconnectGoal), err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, browser.Close()) }()
	var urls []string
	for _, address := range s.addresses() {
		urls = append(urls, "http://"+address)
	}
	front, err := floating.Open(urls)
	if err != nil {
		return err
	}
	defer front.End()
	type part = func(context.Context, *chromium.Browser, *floating.Address) error
	for _, part := range []part{s.paints, s.commits, s.reconnects} {
		if err := part(ctx, browser, front); err != nil {
			return err
		}
	}
	return nil
}

// shown is an expression that is true once an element is there.
func shown(selector string) string {
	return fmt.Sprintf("document.querySelector(%q) !== null", selector)
}

// look waits until an expression is true in a tab.
func look(ctx context.Context, p *chromium.Page, what, expression string) error {
	ctx, cancel := context.WithTimeout(ctx, pageLimit)
	defer cancel()
	var failed error
	err := until(ctx, what, func() bool {
		var is bool
		failed = p.Eval(ctx, expression, &is)
		return is
	})
	if err != nil {
		return errors.Join(err, failed)
	}
	return nil
}

// paints opens the table of machines in tabs with an empty cache.
func (s *apiSite) paints(ctx context.Context, browser *chromium.Browser, front *floating.Address) error {
	var painted, there Sample
	var sent []float64
	for range pagePaints {
		p, err := browser.Open(ctx)
		if err != nil {
			return err
		}
		if err := p.Do(ctx, "Network.setCacheDisabled", map[string]any{"cacheDisabled": true}, nil); err != nil {
			return err
		}
		began := time.Now()
		if err := p.Navigate(ctx, front.URL+"/ui/#machines"); err != nil {
			return err
		}
		if err := look(ctx, p, "the table of machines", shown("#machines .row")); err != nil {
			return err
		}
		there = append(there, time.Since(began))
		var saw struct{ Paint, Bytes float64 }
		err = p.Eval(ctx, `new Promise((done) => requestAnimationFrame(() => done({
			Paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
			Bytes: performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation")).reduce((n, e) => n + e.transferSize, 0),
		})))`, &saw)
		if err = errors.Join(err, p.Close(ctx)); err != nil {
			return err
		}
		painted = append(painted, time.Duration(saw.Paint*float64(time.Millisecond)))
		sent = append(sent, saw.Bytes/1000)
	}
	s.bench.Report.Add("page.first_paint_ms", painted.P50().Seconds()*1000, "ms", AtMost(paintGoal),
		fmt.Sprintf("%v; until the table of %d machines is there: %v", painted, s.bench.Nodes, there))
	s.bench.Report.Add("page.transferred_kb", median(sent), "KB", AtMost(sentGoal),
		fmt.Sprintf("until the table of %d machines is there, nothing in the cache: %.0f", s.bench.Nodes, sent))
	return nil
}

// watchEvents notes when the list of events shows a text first, in ms of the epoch.
const watchEvents = `window.noted = new Map(); new MutationObserver(() => {
	for (const e of document.querySelectorAll(".feed .events .text")) if (!window.noted.has(e.textContent)) window.noted.set(e.textContent, Date.now());
}).observe(document.getElementById("main"), { subtree: true, childList: true, characterData: true }); true`

// commits takes from the request that makes an event until the page lists it: the commit is
// part of it.
func (s *apiSite) commits(ctx context.Context, browser *chromium.Browser, front *floating.Address) error {
	p, err := browser.Open(ctx)
	if err != nil {
		return err
	}
	if err := p.Navigate(ctx, front.URL+"/ui/#overview"); err != nil {
		return err
	}
	if err := look(ctx, p, "the newest events", shown(".feed .events li")); err != nil {
		return err
	}
	if err := p.Eval(ctx, watchEvents, nil); err != nil {
		return err
	}
	c, err := dialWeb(s.fleet[0].api)
	if err != nil {
		return err
	}
	defer c.close()
	var took, committed Sample
	for n := range pageCommits {
		began := time.Now()
		uuid, err := makeRule(c, n)
		if err != nil {
			return err
		}
		committed = append(committed, time.Since(began))
		listed := fmt.Sprintf(`[...window.noted.keys()].some((text) => text.includes(%q))`, uuid)
		if err := look(ctx, p, "the event on the page", listed); err != nil {
			return err
		}
		var at float64
		when := fmt.Sprintf(`[...window.noted].find(([text]) => text.includes(%q))[1]`, uuid)
		if err := p.Eval(ctx, when, &at); err != nil {
			return err
		}
		took = append(took, time.UnixMilli(int64(at)).Sub(began))
		if err := deleteRule(c, n); err != nil {
			return err
		}
	}
	s.bench.Report.Add("page.commit_ms", took.Quantile(0.9).Seconds()*1000, "ms", AtMost(commitGoal),
		fmt.Sprintf("the 90th of 100, from the request on: %v; until it was answered %v", took, committed))
	return p.Close(ctx)
}

// makeRule makes an event, and returns a word of its sentence.
func makeRule(c *webConn, n int) (uuid string, err error) {
	uuid = ruleCalled(n)
	body := fmt.Appendf(nil, `{"uuid": %q, "description": "bench", "conditions": [{"op": "eq", "field": "none", "value": "x"}],
		"actions": [{"action": "set-attribute", "path": "/extra/bench", "value": "x"}]}`, uuid)
	status, answer, err := c.do(http.MethodPost, "/v1/rules", body)
	if err == nil && status != http.StatusCreated && status != http.StatusOK {
		err = fmt.Errorf("make a rule: answered %d: %s", status, answer)
	}
	return uuid, err
}

func deleteRule(c *webConn, n int) error {
	status, answer, err := c.do(http.MethodDelete, "/v1/rules/"+ruleCalled(n), nil)
	if err == nil && status != http.StatusNoContent {
		err = fmt.Errorf("delete a rule: answered %d: %s", status, answer)
	}
	return err
}

func ruleCalled(n int) string { return fmt.Sprintf("00000000-0000-4000-9000-%012d", n) }

// reconnects kills the peer that answers, which leads, and takes the time until the page is
// live again from another one.
func (s *apiSite) reconnects(ctx context.Context, browser *chromium.Browser, front *floating.Address) error {
	var took Sample
	for range min(s.bench.Trials, pagePaints) {
		if err := s.fleet.whole(ctx); err != nil {
			return err
		}
		leader, _, err := s.fleet.roles(ctx)
		if err != nil {
			return err
		}
		for i, p := range s.fleet {
			if p == leader {
				front.MoveTo(i)
			}
		}
		p, err := browser.Open(ctx)
		if err != nil {
			return err
		}
		if err := p.Navigate(ctx, front.URL+"/ui/#overview"); err != nil {
			return err
		}
		state := fmt.Sprintf(`(() => {
			const text = (selector) => (document.querySelector(selector) || {}).textContent || "";
			return { peer: text(".fresh.live"), leader: text(".tile.lead h3"), events: text(".feed .events"), was: %q };
		})()`, leader.name)
		if err := look(ctx, p, "a page that is live",
			fmt.Sprintf(`((s) => s.peer.endsWith(s.was) && s.leader === s.was && s.events !== "")(%s)`, state)); err != nil {
			return err
		}
		began, err := leader.signal(syscall.SIGKILL)
		if err != nil {
			return err
		}
		front.CloseClientConnections() // as the death of a host does to those of its address
		err = look(ctx, p, "a page that is live again, with a leader", fmt.Sprintf(
			`((s) => s.peer !== "" && !s.peer.endsWith(s.was) && s.leader !== "" && s.leader !== s.was)(%s)`, state))
		took = append(took, time.Since(began))
		if err = errors.Join(err, leader.reap(), leader.serve(), p.Close(ctx)); err != nil {
			return err
		}
	}
	s.bench.Report.Add("page.reconnect_s", took.Max().Seconds(), "s", AtMost(reconnectGoal),
		fmt.Sprintf("from SIGKILL of the leader until the page shows the next one: %v", took))
	return s.fleet.whole(ctx)
}

// streams takes the leader's processor time with streams of events and without, while events
// come and while none does, in turns.
func (s *apiSite) streams(ctx context.Context) error {
	leader, _, err := s.fleet.roles(ctx)
	if err != nil {
		return err
	}
	var busy, idle []float64
	var heard []int64
	for range min(pageRounds, s.bench.Trials) {
		var share [2][2]float64 // by streams, by events
		for n, streams := range []int{0, pageStreams} {
			for k, rate := range []int{0, pageEvents} {
				used, events, err := s.share(ctx, leader, streams, rate)
				if err != nil {
					return fmt.Errorf("%d streams, %d events a second: %w", streams, rate, err)
				}
				share[n][k] = used
				if streams > 0 && rate > 0 {
					heard = append(heard, events)
				}
			}
		}
		idle, busy = append(idle, share[1][0]-share[0][0]), append(busy, share[1][1]-share[0][1])
	}
	s.bench.Report.Add("page.streams_500_cpu_percent", median(busy), "%", AtMost(streamsGoal), fmt.Sprintf(
		"of a core of the leader, more than the same events without streams: %.1f; the streams heard %d events", busy, heard))
	s.bench.Report.Add("page.streams_500_idle_cpu_percent", median(idle), "%", AtMost(idleGoal),
		fmt.Sprintf("of a core of the leader, more than without streams: %.1f", idle))
	return nil
}

// lasts is how long each of these is looked at: 20 s, less with -short.
func (s *apiSite) lasts() time.Duration { return max(2*time.Second, 4*s.bench.Least) }

// share is the processor time of a peer as a share of a core, with so many streams of events
// and so many events a second, and how many events the streams heard.
func (s *apiSite) share(ctx context.Context, p *process, streams, rate int) (percent float64, heard int64, err error) {
	reading, quiet := context.WithCancel(ctx)
	defer quiet()
	r, err := openStreams(reading, p.api, streams)
	if err != nil {
		return 0, 0, err
	}
	defer r.all.Wait()
	defer quiet()
	if err := pause(ctx, time.Second); err != nil { // what opening them costs is another thing
		return 0, 0, err
	}
	before, err := cpuOf(p.serving.Process.Pid)
	if err != nil {
		return 0, 0, err
	}
	began, had := time.Now(), r.heard.Load()
	if rate == 0 {
		err = pause(ctx, s.lasts())
	} else {
		err = s.rules(ctx, p, rate)
	}
	took := time.Since(began)
	after, used := cpuOf(p.serving.Process.Pid)
	if err = errors.Join(err, used); err != nil {
		return 0, 0, err
	}
	heard = r.heard.Load() - had
	if want := int64(streams*rate) * int64(s.lasts()/time.Second); heard < want*9/10 {
		return 0, 0, fmt.Errorf("the streams heard %d events of %d", heard, want)
	}
	return 100 * (after - before).Seconds() / took.Seconds(), heard, nil
}

// rules makes and deletes rules, so many of both together a second: each is an event.
func (s *apiSite) rules(ctx context.Context, p *process, rate int) error {
	c, err := dialWeb(p.api)
	if err != nil {
		return err
	}
	defer c.close()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	const first = 1000
	for n := range rate * int(s.lasts()/time.Second) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if n%2 == 0 {
			_, err = makeRule(c, first+n)
		} else {
			err = deleteRule(c, first+n-1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// streams are readers of events.
type streams struct {
	all   sync.WaitGroup
	heard atomic.Int64 // events
}

// openStreams opens streams of events at a peer and returns when all are open; they end with
// ctx.
func openStreams(ctx context.Context, address string, count int) (*streams, error) {
	s := &streams{}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range count {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v1/events", http.NoBody)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Accept", "text/event-stream")
		resp, err := client.Do(r)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = errors.Join(fmt.Errorf("a stream of events: answered %s", resp.Status), resp.Body.Close())
		}
		if err != nil {
			return nil, err
		}
		s.all.Go(func() { s.read(resp.Body) })
	}
	return s, nil
}

func (s *streams) read(body io.ReadCloser) {
	defer body.Close()
	for lines := bufio.NewReader(body); ; {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return // its context has ended, or the peer: the events that are missing will tell
		}
		if strings.HasPrefix(string(line), "data:") {
			s.heard.Add(1)
		}
	}
}

// eventCost takes the processor time of introspections with pages open at each peer and
// without, in turns.
func (s *apiSite) eventCost(ctx context.Context) error {
	var with, without []float64
	each := s.bench.Nodes / (costTurns + 1)
	for turn := range costTurns + 1 {
		used, err := s.introspectWith(ctx, turn*each, each, turn%2*costStreams)
		if err != nil {
			return fmt.Errorf("introspections, turn %d: %w", turn, err)
		}
		switch {
		case turn == 0: // peers that have just started work with a heap that grows
		case turn%2 == 0:
			without = append(without, used)
		default:
			with = append(with, used)
		}
	}
	more := 100 * (median(with)/median(without) - 1)
	s.bench.Report.Add("page.api_cost_percent", more, "%", AtMost(costGoal), fmt.Sprintf(
		"processor time of the peers for an introspection, ms, with %d streams of events: %.2f, without: %.2f",
		costStreams, with, without))
	return nil
}

// introspectWith introspects some nodes while so many streams of events are open, a third at
// each peer, and returns the peers' processor time for each, in ms.
func (s *apiSite) introspectWith(ctx context.Context, first, count, open int) (ms float64, err error) {
	reading, quiet := context.WithCancel(ctx)
	defer quiet()
	for _, p := range s.fleet {
		r, err := openStreams(reading, p.api, open/len(s.fleet))
		if err != nil {
			return 0, err
		}
		defer r.all.Wait()
	}
	defer quiet()
	before := s.usage(ctx)
	if err := s.introspect(ctx, first, count, s.start); err != nil {
		return 0, err
	}
	if err := s.await(ctx, "waiting", func() bool { return s.rack.on.Load() >= int64(first+count) }); err != nil {
		return 0, err
	}
	if err := s.introspect(ctx, first, count, s.callback); err != nil {
		return 0, err
	}
	if err := s.await(ctx, "finished", func() bool { return s.rack.off.Load() >= int64(first+count) }); err != nil {
		return 0, err
	}
	return s.usage(ctx).since(before).peers.Seconds() * 1000 / float64(count), nil
}
