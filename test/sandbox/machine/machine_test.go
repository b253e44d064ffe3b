package machine

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func example(i int) Machine { return Number(0, i, 4) }

func TestInventoryIsLikeARealOne(t *testing.T) {
	for i := range 50 {
		raw := Inventory(example(i))
		if len(raw) < 25<<10 || len(raw) > 35<<10 {
			t.Errorf("machine %d: %d bytes", i, len(raw))
		}
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(raw); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		if ratio := len(raw) / packed.Len(); ratio < 3 || ratio > 8 {
			t.Errorf("machine %d: compresses %d times", i, ratio)
		}
	}
}

func TestInventoryIsTheSameAtEveryBoot(t *testing.T) {
	if !bytes.Equal(Inventory(example(1)), Inventory(example(1))) {
		t.Error("it changed")
	}
	if bytes.Equal(Inventory(example(1)), Inventory(example(2))) {
		t.Error("two machines are one")
	}
}

func TestInventoryNamesTheNode(t *testing.T) {
	var doc struct {
		Boot      string `json:"boot_interface"`
		Inventory struct {
			BMC        string `json:"bmc_address"`
			Interfaces []struct {
				MAC string `json:"mac_address"`
			}
			CPU struct{ Count int }
		}
	}
	if err := json.Unmarshal(Inventory(example(7)), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Boot != "01-52-54-00-00-07-00" || doc.Inventory.BMC != "198.18.0.8" || len(doc.Inventory.Interfaces) != 5 ||
		doc.Inventory.Interfaces[0].MAC != "52:54:00:00:07:00" || doc.Inventory.CPU.Count < 16 {
		t.Errorf("%+v", doc)
	}
}

// peers is a network of callback addresses that answer as told, at once.
type peers struct {
	began time.Time

	mu     sync.Mutex
	answer func(host string, n int) (status int, err error) // n counts from 0
	log    []string
}

// RoundTrip implements http.RoundTripper.
func (p *peers) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.log)
	p.log = append(p.log, fmt.Sprintf("%v %s", time.Since(p.began), r.URL.Host))
	status, err := p.answer(r.URL.Host, n)
	if status == 0 && err == nil { // hangs
		p.mu.Unlock()
		<-r.Context().Done()
		p.mu.Lock()
		return nil, context.Cause(r.Context())
	}
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
}

func (p *peers) seen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.log, ", ")
}

// fleet returns two machines, the second of them silent, that boot in 2 s.
func (p *peers) fleet(t *testing.T) *Fleet {
	f := NewFleet(Options{
		Callbacks: []string{"http://a/v1/continue", "http://b/v1/continue"}, BootLeast: 2 * time.Second,
		BootMost: 2 * time.Second,
		Client:   &http.Client{Transport: p}, Logger: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(f.Close)
	f.Add(example(1))
	silent := example(2)
	silent.Silent = true
	f.Add(silent)
	return f
}

var errDial = errors.New("connection refused")

func TestCallbacks(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(host string, n int) (int, error)
		calls  string
		stats  Stats
	}{
		{"taken", func(string, int) (int, error) { return 200, nil }, "2s a", Stats{Boots: 1, Accepted: 1}},
		{"the next peer takes it", func(host string, _ int) (int, error) {
			if host == "a" {
				return 0, errDial
			}
			return 200, nil
		}, "2s a, 2s b", Stats{Boots: 1, Accepted: 1}},
		{"refused", func(string, int) (int, error) { return 400, nil }, "2s a", Stats{Boots: 1, Refused: 1}},
		{"taken at last", func(_ string, n int) (int, error) {
			if n < 4 {
				return 503, nil
			}
			return 200, nil
		}, "2s a, 2s b, 3s a, 3s b, 6s a", Stats{Boots: 1, Accepted: 1, Retries: 2}},
		{"no server is there", func(string, int) (int, error) { return 0, errDial },
			"2s a, 2s b, 3s a, 3s b, 6s a, 6s b, 14s a, 14s b, 30s a, 30s b", Stats{Boots: 1, GaveUp: 1, Retries: 4}},
		{"one hangs", func(host string, _ int) (int, error) {
			if host == "a" {
				return 0, nil
			}
			return 200, nil
		}, "2s a, 32s b", Stats{Boots: 1, Accepted: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &peers{began: time.Now(), answer: c.answer}
				f := p.fleet(t)
				f.Power(example(1).UUID, "rebooting")
				time.Sleep(time.Minute) // in a bubble
				if p.seen() != c.calls || f.Stats() != c.stats {
					t.Errorf("calls %s\nstats %+v, want\n%s\n%+v", p.seen(), f.Stats(), c.calls, c.stats)
				}
				f.Close()
			})
		})
	}
}

func TestPower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peers{began: time.Now(), answer: func(string, int) (int, error) { return 200, nil }}
		f := p.fleet(t)
		one, silent := example(1).UUID, example(2).UUID
		f.Power(one, "power on")
		f.Power(silent, "rebooting")
		f.Power("nobody", "rebooting")
		time.Sleep(time.Second)  // in a bubble
		f.Power(one, "power on") // it is on already
		f.Power(one, "rebooting")
		time.Sleep(time.Second)
		if got := p.seen(); got != "" {
			t.Errorf("a machine that was rebooted goes on: %s", got)
		}
		time.Sleep(time.Minute)
		f.Power(one, "power off")
		f.Power(one, "power on")
		time.Sleep(time.Second)
		f.Power(one, "power off")
		time.Sleep(time.Minute)
		if got, want := p.seen(), "3s a"; got != want || f.Stats() != (Stats{Boots: 4, Accepted: 1}) {
			t.Errorf("calls %s, want %s; %+v", got, want, f.Stats())
		}
		f.Close()
		f.Power(one, "power on")
		if f.Stats().Boots != 4 {
			t.Error("a closed fleet boots")
		}
	})
}

func BenchmarkInventory(b *testing.B) {
	m := example(1)
	for b.Loop() {
		Inventory(m)
	}
}

// TestMachinesBootWhenTheyAreAnswered: one that no DHCP server answers asks again,
// and boots as soon as one does.
func TestMachinesBootWhenTheyAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, called := time.Now(), make(chan time.Duration, 1)
		f := NewFleet(Options{
			Callbacks: []string{"http://x/"}, BootLeast: time.Second, Logger: slog.New(slog.DiscardHandler),
			Answered: func(mac string) bool { return mac == example(1).MACs[0] && time.Since(began) > 10*time.Second },
			Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				called <- time.Since(began)
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
			})},
		})
		defer f.Close()
		f.Add(example(1))
		f.Add(example(2))
		f.Power(example(1).UUID, "power on")
		f.Power(example(2).UUID, "power on") // never answered
		if after := <-called; after < 10*time.Second || after > 10*time.Second+askEvery {
			t.Errorf("it called back after %v", after)
		}
		time.Sleep(time.Minute) // in a bubble
		if s := f.Stats(); s.Boots != 2 || s.Accepted != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// roundTrip answers requests without a network.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
