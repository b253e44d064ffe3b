package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Goals of readers of events who all come again after a change of leader, and of those who
// ask for lists meanwhile.
const (
	stormFirst = 5.0  // seconds until each has its first event
	stormAll   = 90.0 // until each has all
)

// polls are honest reads next to a crowd.
type polls struct {
	took    Sample
	refused map[string]int
}

// readUntil asks for something again and again, until ctx ends.
func readUntil(ctx context.Context, ask func(context.Context) (int, error)) (p polls) {
	p.refused = make(map[string]int)
	for pause(ctx, 100*time.Millisecond) == nil {
		began := time.Now()
		status, err := ask(ctx)
		if ctx.Err() != nil {
			return p
		}
		p.took = append(p.took, time.Since(began))
		if err != nil || status != http.StatusOK {
			p.refused[fmt.Sprint(status)]++
		}
	}
	return p
}

// add reports honest reads next to a crowd of a name.
func (p polls) add(c *crowd, figure, name, raw string) {
	failed := 0
	for _, n := range p.refused {
		failed += n
	}
	raw = fmt.Sprintf("%d reads, max %v, refused %v; %s", len(p.took), short(p.took.Max()), p.refused, raw)
	c.Report.Add("crowd."+figure+"_refused "+name, float64(failed), "", AtMost(0), raw)
	c.Report.Add("crowd."+figure+"_p99 "+name, p.took.Quantile(0.99).Seconds(), "s", AtMost(crowdLatency), raw)
	c.Say("%s %s: p99 %v; %s", figure, name, short(p.took.Quantile(0.99)), raw)
}

// measureStorm kills the leader and has a thousand readers of events come to the next one
// together, from the first event that there is, while lists are asked for.
func (c *crowd) measureStorm(ctx context.Context) error {
	readers := min(crowdSources, c.Nodes/10)
	for _, sources := range []int{1, readers} {
		name := fmt.Sprintf("from %d", sources)
		if !c.Routes.MatchString("storm " + name) {
			continue
		}
		_, others, err := c.cluster.roles(ctx)
		if err != nil {
			return err
		}
		if _, err := c.cluster.lose(ctx, syscall.SIGKILL); err != nil {
			return err
		}
		leader, _, err := others.roles(ctx) // the one that was killed begins still
		if err != nil {
			return err
		}
		_, text, err := c.call(ctx, http.MethodGet, "http://"+leader.api+"/v1/events?limit=1")
		var newest struct{ Last string }
		if err := errors.Join(err, json.Unmarshal(text, &newest)); err != nil {
			return fmt.Errorf("ask for the newest event: %w", err)
		}
		asking, quiet := context.WithCancel(ctx)
		var lists polls
		var all sync.WaitGroup
		all.Go(func() {
			lists = readUntil(asking, func(ctx context.Context) (int, error) {
				status, _, err := c.call(ctx, http.MethodGet, "http://"+leader.api+"/v1/introspection?limit=1000")
				return status, err
			})
		})
		s := &stormed{url: "http://" + leader.api + "/v1/events?after=0", last: "id: " + newest.Last}
		s.read(ctx, readers, sources)
		quiet()
		all.Wait()
		raw := fmt.Sprintf("%d of %d readers had all, %d events at most; came again %d times",
			len(s.all), readers, s.events, s.again)
		c.Report.Add("crowd.storm_first "+name, s.first.Max().Seconds(), "s", AtMost(stormFirst), raw)
		c.Report.Add("crowd.storm_all "+name, s.all.Max().Seconds(), "s", AtMost(stormAll), raw)
		c.Report.Add("crowd.storm_failed "+name, float64(readers-len(s.all)), "", AtMost(0), raw)
		raw = fmt.Sprintf("first events within %v, all within %v; %s", short(s.first.Max()), short(s.all.Max()), raw)
		lists.add(c, "storm_lists", name, raw)
	}
	return nil
}

// stormed is what became of readers who came together.
type stormed struct {
	url, last string

	mu         sync.Mutex
	first, all Sample
	events     int
	again      int
}

func (s *stormed) read(ctx context.Context, readers, sources int) {
	ctx, cancel := context.WithTimeout(ctx, 2*crowdWithin)
	defer cancel()
	var reading sync.WaitGroup
	for n := range readers {
		from := net.IPv4(127, 50, byte(n%sources/250), byte(2+n%sources%250))
		reading.Go(func() {
			began, had := time.Now(), 0
			for !s.follow(ctx, from, began, &had) {
				s.mu.Lock()
				s.again++
				s.mu.Unlock()
				if pause(ctx, time.Second) != nil {
					return
				}
				had = 0
			}
		})
	}
	reading.Wait()
}

// follow reads a stream to the last event, and reports whether it came so far.
func (s *stormed) follow(ctx context.Context, from net.IP, began time.Time, had *int) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return false
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := client.Do(r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if !strings.HasPrefix(lines.Text(), "id: ") {
			continue
		}
		s.mu.Lock()
		if *had++; *had == 1 {
			s.first = append(s.first, time.Since(began))
		}
		done := lines.Text() == s.last
		if done {
			s.all, s.events = append(s.all, time.Since(began)), max(s.events, *had)
		}
		s.mu.Unlock()
		if done {
			return true
		}
	}
	return false
}

// bench is a user whose password is "secret", as htpasswd -B -C 12 writes it.
const benchUser = "bench:$2a$12$mFcBLXzZ3eIw3/CsYT34d.L75qpQ847oKMvWgMx82EsaaYTxWRrpC\n"

// sessionsLast is how long the login of the page is attacked.
const sessionsLast = 20 * time.Second

// measureSessions attacks the login of the page of a cluster with passwords, from two
// addresses, while a user asks for statuses from another.
func (c *crowd) measureSessions(ctx context.Context) (err error) {
	if !c.Routes.MatchString("sessions") {
		return nil
	}
	binary, err := c.Binary(ctx)
	if err != nil {
		return err
	}
	dir, err := c.Folder("crowd-sessions")
	if err != nil {
		return err
	}
	users := filepath.Join(dir, "users")
	if err := os.WriteFile(users, []byte(benchUser), 0o600); err != nil {
		return fmt.Errorf("write the users: %w", err)
	}
	peers, err := newFleet(ctx, binary, dir, map[string]string{
		"api.auth_strategy": "http_basic", "api.http_basic_auth_user_file": users,
	})
	defer func() { err = errors.Join(err, peers.end()) }()
	if err != nil {
		return err
	}
	leader, _, err := peers.roles(ctx)
	if err != nil {
		return err
	}
	ask := func(ctx context.Context) (int, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+leader.api+"/v1/rules", http.NoBody)
		if err != nil {
			return 0, fmt.Errorf("make a request: %w", err)
		}
		r.SetBasicAuth("bench", "secret")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	if status, err := ask(ctx); err != nil || status != http.StatusOK {
		return errors.Join(fmt.Errorf("ask for a list with a password: status %d", status), err)
	}
	login := crowdRoute{Method: http.MethodPost, Path: "/ui/api/session", Body: `{"user":"bench","password":"wrong"}`}
	for _, silent := range []bool{false, true} {
		login.Silent = silent
		a, err := c.begin(ctx, leader, login, 2)
		if err != nil {
			return err
		}
		asking, quiet := context.WithTimeout(ctx, max(c.Least, sessionsLast))
		reads := readUntil(asking, ask)
		quiet()
		said, _, err := a.end()
		if err != nil {
			return err
		}
		name := "wrong passwords"
		if silent {
			name = "slow bodies"
		}
		reads.add(c, "sessions", name, "attack: "+said)
	}
	return nil
}
