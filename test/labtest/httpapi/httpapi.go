//go:build e2e

// Package httpapi sends requests to the APIs that a lab meets, those of Trivet and of
// OpenStack, and returns their answers as they come.
package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Reply is an answer.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Refusal is an answer of 400 or above.
type Refusal struct {
	Status     int
	RetryAfter string
	Body       string
}

// Error implements error.
func (r *Refusal) Error() string { return fmt.Sprintf("%d %s", r.Status, r.Body) }

// Err returns a *Refusal if the answer is one.
func (r Reply) Err() error {
	if r.Status < http.StatusBadRequest {
		return nil
	}
	return &Refusal{Status: r.Status, RetryAfter: r.Header.Get("Retry-After"), Body: string(r.Body)}
}

// Decode reads JSON into out, unless that is nil. A refusal is an error.
func (r Reply) Decode(out any) error {
	if err := r.Err(); err != nil || out == nil {
		return err
	}
	return json.Unmarshal(r.Body, out)
}

// OK fails unless a request was answered with 200.
func OK(r Reply, err error) error {
	if err == nil && r.Status != http.StatusOK {
		err = fmt.Errorf("%d %s", r.Status, r.Body)
	}
	return err
}

// limit bounds one request: a peer waits up to 25 s for the end of what it was asked.
const limit = 40 * time.Second

// Client returns a client. It follows no redirect, because answers are compared as
// they come.
func Client() *http.Client {
	return &http.Client{
		Timeout:       limit,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Ask sends one request to the API at addr, host:port.
func Ask(client *http.Client, addr, method, path string, header map[string]string, body []byte) (Reply, error) {
	var in io.Reader
	if body != nil {
		in = bytes.NewReader(body)
	}
	req, err := http.NewRequest(method, "http://"+addr+path, in)
	if err != nil {
		return Reply{}, err
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return Reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return Reply{Status: resp.StatusCode, Header: resp.Header, Body: text}, err
}

// Call is Ask with JSON, in and out, either of which may be nil. A refusal is a *Refusal.
func Call(client *http.Client, addr, method, path string, header map[string]string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	reply, err := Ask(client, addr, method, path, header, body)
	if err != nil {
		return err
	}
	return reply.Decode(out)
}

// Parallel calls do with 0 to n-1, at most width calls at once, and joins their
// errors.
func Parallel(n, width int, do func(k int) error) error {
	var workers sync.WaitGroup
	places := make(chan struct{}, width)
	errs := make([]error, n)
	for k := range n {
		places <- struct{}{}
		workers.Go(func() {
			defer func() { <-places }()
			errs[k] = do(k)
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}
