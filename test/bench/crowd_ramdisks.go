package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/test/sandbox/machine"
	"github.com/trivet-ha/trivet/test/sandbox/simironic"
)

// What ramdisks that call together send, and for how long each waits.
const (
	ramdiskBytes  = 1 << 20          // of a document
	ramdiskAnswer = 30 * time.Second // its HTTP client's time-out; that is final
	ramdiskLimit  = 60               // seconds: the goal of the 99th percentile
)

// ramdiskPauses are those between the five attempts of ironic-python-agent: at 0, 5, 10, 16
// and 28 s where each is refused at once. It repeats what got 5xx or no connection.
func ramdiskPauses() []time.Duration {
	return []time.Duration{5 * time.Second, 5 * time.Second, 6 * time.Second, 12 * time.Second}
}

// ramdisks are nodes under introspection whose machines all call at the same moment.
type ramdisks struct {
	*crowd
	documents [][]byte // the beginning of each: the inventory
	nodes     []string
	rest      []byte // the end of all

	took     Sample // from the first byte to the answer 200
	attempts [6]int // documents that were taken at the first attempt, at the second, …; 0: at none
	mu       sync.Mutex
	said     map[string]int // how attempts ended
}

// measureRamdisks has 1,000 ramdisks of 1 MiB call the leader at once: from one source, as
// behind NAT, from a source each, and from one next to strangers.
func (c *crowd) measureRamdisks(ctx context.Context) error {
	r, err := c.newRamdisks(min(crowdSources, c.Nodes/10))
	if err != nil {
		return err
	}
	strangers := crowdRoute{Method: http.MethodPost, Path: "/v1/continue", Padding: ramdiskBytes}
	for _, row := range []struct {
		name    string
		sources int
		beside  int // sources of strangers
	}{
		{"from 1", 1, 0},
		{fmt.Sprintf("from %d", len(r.nodes)), len(r.nodes), 0},
		{"from 1 next to strangers from 1", 1, 1},
		{"from 1 next to strangers from 1000", 1, crowdSources},
	} {
		if !c.Routes.MatchString("ramdisks " + row.name) {
			continue
		}
		if err := r.measure(ctx, row.name, row.sources, row.beside, strangers); err != nil {
			return fmt.Errorf("ramdisks %s: %w", row.name, err)
		}
	}
	return nil
}

func (c *crowd) newRamdisks(count int) (*ramdisks, error) {
	r := &ramdisks{crowd: c, rest: facts(ramdiskBytes)}
	for n := range count {
		m := machine.Number(0xc1, n, 1)
		if err := c.ironic.Enroll(simironic.Enrolment{UUID: m.UUID, BMC: m.BMC, MACs: m.MACs}); err != nil {
			return nil, err
		}
		document := machine.Inventory(m)
		r.documents = append(r.documents, document[:len(document)-1]) // without the brace at the end
		r.nodes = append(r.nodes, m.UUID)
	}
	return r, nil
}

// facts end a document, as collectors of the ramdisk write them.
func facts(size int) []byte {
	text := []byte(`,"facts":[[]`)
	for n := 0; len(text) < size; n++ {
		text = fmt.Appendf(text, `,["disk","sd%x","serial","S%08X"]`, n%4099, n*2654435761)
	}
	return append(text, "]}"...)
}

func (r *ramdisks) measure(ctx context.Context, name string, sources, beside int, strangers crowdRoute) error {
	if err := r.await(ctx); err != nil {
		return err
	}
	leader, _, err := r.cluster.roles(ctx)
	if err != nil {
		return err
	}
	before, err := leader.status(ctx)
	if err != nil {
		return err
	}
	pid := leader.serving.Process.Pid
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o200); err != nil {
		return fmt.Errorf("forget the peak of the leader's memory: %w", err)
	}
	end := func() (string, error) { return "none", nil }
	if beside > 0 {
		a, err := r.begin(ctx, leader, strangers, beside)
		if err != nil {
			return err
		}
		end = func() (string, error) {
			said, _, err := a.end()
			return said, err
		}
	}
	began := time.Now()
	r.call(ctx, leader.api, sources)
	lasted := time.Since(began)
	said, err := end()
	if err != nil {
		return err
	}
	peak, err := rssOf(pid, "VmHWM")
	if err != nil {
		return err
	}
	after, err := leader.status(ctx)
	if err != nil {
		return err
	}
	lost := after.Token != before.Token
	add := func(figure string, value float64, unit string, most float64, raw string) {
		r.Report.Add("crowd.ramdisks_"+figure+" "+name, value, unit, AtMost(most), raw)
	}
	took := r.took.Quantile(0.99)
	add("failed", float64(r.attempts[0]), "", 0,
		fmt.Sprintf("of %d, taken at attempt 1 to 5: %v; %v", len(r.nodes), r.attempts[1:], r.said))
	add("p99", took.Seconds(), "s", ramdiskLimit, fmt.Sprintf("until its document is taken; all in %v", short(lasted)))
	add("memory", peak, "MB", crowdMemory,
		fmt.Sprintf("the leader's peak; leadership lost: %v; strangers: %s", lost, said))
	r.Say("ramdisks %s: %d failed; attempts %v, %v; p99 %v, all in %v; %.0f MB; leadership lost: %v; strangers: %s",
		name, r.attempts[0], r.attempts[1:], r.said, short(took), short(lasted), peak, lost, said)
	return nil
}

// await starts the introspection of all nodes and waits until each expects its ramdisk.
func (r *ramdisks) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*crowdWithin)
	defer cancel()
	for n, node := range r.nodes {
		url := "http://" + r.cluster[n%size].api + "/v1/introspection/" + node
		if err := until(ctx, "the start of "+node, func() bool {
			status, _, err := r.crowd.call(ctx, http.MethodPost, url)
			return err == nil && (status == http.StatusAccepted || status == http.StatusConflict)
		}); err != nil {
			return err
		}
	}
	for _, node := range r.nodes {
		url := "http://" + r.cluster[0].api + "/v1/introspection/" + node
		if err := until(ctx, node+" to wait for its ramdisk", func() bool {
			var s struct{ State string }
			_, body, err := r.crowd.call(ctx, http.MethodGet, url)
			return err == nil && json.Unmarshal(body, &s) == nil && s.State == "waiting"
		}); err != nil {
			return err
		}
	}
	return nil
}

// call has all ramdisks call at once.
func (r *ramdisks) call(ctx context.Context, address string, sources int) {
	r.took, r.attempts, r.said = nil, [6]int{}, make(map[string]int)
	var calling sync.WaitGroup
	for n := range r.nodes {
		calling.Go(func() {
			began := time.Now()
			attempt := r.agent(ctx, n, address, net.IPv4(127, 30, byte(n%sources/250), byte(2+n%sources%250)))
			r.mu.Lock()
			defer r.mu.Unlock()
			r.attempts[attempt]++
			if attempt > 0 {
				r.took = append(r.took, time.Since(began))
			}
		})
	}
	calling.Wait()
}

// agent calls as ironic-python-agent does, and returns which attempt was taken, 0 for none.
func (r *ramdisks) agent(ctx context.Context, n int, address string, from net.IP) int {
	client := &http.Client{Timeout: ramdiskAnswer, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from}, Timeout: ramdiskAnswer}).DialContext,
	}}
	for attempt, wait := range append(ramdiskPauses(), 0) {
		status, err := r.post(ctx, client, n, "http://"+address+"/v1/continue")
		text := fmt.Sprint(status)
		late := false
		if err != nil {
			var timeout net.Error
			text, late = "no answer", errors.As(err, &timeout) && timeout.Timeout()
			if late {
				text = "time-out"
			}
		}
		r.mu.Lock()
		r.said[text]++
		r.mu.Unlock()
		switch {
		case err == nil && status == http.StatusOK:
			return attempt + 1
		case late, err == nil && status < 500:
			return 0
		}
		if pause(ctx, wait) != nil {
			return 0
		}
	}
	return 0
}

func (r *ramdisks) post(ctx context.Context, client *http.Client, n int, url string) (status int, err error) {
	body := io.MultiReader(bytes.NewReader(r.documents[n]), bytes.NewReader(r.rest))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return 0, fmt.Errorf("make a request: %w", err)
	}
	req.ContentLength = int64(len(r.documents[n]) + len(r.rest))
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
