package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	callLimit  = 10 * time.Second // one call of one peer
	retryPause = 100 * time.Millisecond
	pageSize   = 1000     // api_max_limit of the peers
	maxAnswer  = 16 << 20 // bytes; a page of records with long errors is far below
)

// status is what the API says of an introspection, as far as it matters here.
type status struct {
	UUID    string  `json:"uuid"`
	State   string  `json:"state"`
	Error   *string `json:"error"` // null while there is none
	Started string  `json:"started_at"`
}

// The state in which an introspection begins, and those in which it ends.
const (
	stateStarting = "starting"
	stateFinished = "finished"
	stateError    = "error"
)

func (s status) ended() bool { return s.State == stateFinished || s.State == stateError }

func (s status) reason() string {
	if s.Error == nil {
		return ""
	}
	return *s.Error
}

// client speaks to three peers, of which each call asks another one first.
type client struct {
	http    *http.Client
	servers []string
	turn    atomic.Uint64
}

func newClient(servers []string) *client {
	return &client{servers: servers, http: &http.Client{Timeout: callLimit, Transport: &http.Transport{MaxIdleConnsPerHost: maxStarts}}}
}

// any asks one peer after the other until one answers otherwise than with 5xx.
// The status is 0 when none did; err says what the last one did.
func (c *client) any(ctx context.Context, method, path string) (code int, body []byte, err error) {
	first := c.turn.Add(1)
	for i := range c.servers {
		server := c.servers[(first+uint64(i))%uint64(len(c.servers))]
		if code, body, err = c.call(ctx, method, server+path); err == nil && code < http.StatusInternalServerError {
			return code, body, nil
		}
		if err == nil {
			err = fmt.Errorf("%s%s: %d %s", server, path, code, message(body))
		}
	}
	return 0, nil, err
}

func (c *client) call(ctx context.Context, method, url string) (code int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, body, err
}

// message digs the sentence out of an error body.
func message(body []byte) string {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &e) != nil || e.Error.Message == "" {
		return string(body[:min(len(body), 200)])
	}
	return e.Error.Message
}

// start begins an introspection through one peer or another. before is when the
// node's last one began, "" if there was none: a start whose answer was lost is
// looked up before it is repeated, or a machine would be switched on twice.
func (c *client) start(ctx context.Context, node, before string) error {
	ctx, cancel := context.WithTimeout(ctx, stuckAfter)
	defer cancel()
	path := "/v1/introspection/" + node
	first := c.turn.Add(1)
	var last error
	for try := uint64(0); ; try++ {
		server := c.servers[(first+try)%uint64(len(c.servers))]
		code, body, err := c.call(ctx, http.MethodPost, server+path)
		switch {
		case err != nil:
			last = err
		case code == http.StatusAccepted:
			return nil
		case code < http.StatusInternalServerError:
			return fmt.Errorf("%s refused to start %s: %d %s", server, node, code, message(body))
		default:
			last = fmt.Errorf("%s: %d %s", server, code, message(body))
		}
		if begun, err := c.begun(ctx, path, before); err != nil || begun {
			return err
		}
		if pause(ctx, retryPause) != nil {
			return fmt.Errorf("start %s: %w", node, last)
		}
	}
}

// begun reports whether an introspection later than before is known. It asks
// until somebody knows.
func (c *client) begun(ctx context.Context, path, before string) (bool, error) {
	for {
		code, body, err := c.any(ctx, http.MethodGet, path)
		var s status
		switch {
		case code == http.StatusNotFound:
			return false, nil
		case code == http.StatusOK:
			if err := json.Unmarshal(body, &s); err != nil {
				return false, fmt.Errorf("status: %w", err)
			}
			return s.Started != before, nil
		case code != 0:
			return false, fmt.Errorf("status: %d %s", code, message(body))
		}
		if pause(ctx, retryPause) != nil {
			return false, err
		}
	}
}

// list returns the status of every node, page by page.
func (c *client) list(ctx context.Context) ([]status, error) {
	var out []status
	for {
		q := url.Values{"limit": {strconv.Itoa(pageSize)}}
		if len(out) > 0 {
			q.Set("marker", out[len(out)-1].UUID)
		}
		code, body, err := c.any(ctx, http.MethodGet, "/v1/introspection?"+q.Encode())
		if err != nil {
			return nil, err
		}
		if code != http.StatusOK {
			return nil, fmt.Errorf("list: %d %s", code, message(body))
		}
		var page struct {
			Introspection []status `json:"introspection"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		out = append(out, page.Introspection...)
		if len(page.Introspection) < pageSize || len(out) > MaxNodes {
			return out, nil
		}
	}
}
