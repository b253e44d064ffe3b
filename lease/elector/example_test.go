package elector_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/client/lease"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/lease/elector"
	"github.com/trivet-ha/trivet/test/testwait"
)

// stateOf is a log whose state is that of a cluster led by its only member. In a
// peer, *raftstore.Store is the log.
type stateOf struct{ view fsm.View }

func ledBy(name string) (stateOf, error) {
	state := fsm.New()
	for i, c := range []fsm.Command{
		membership.PutMember{Member: membership.Member{ID: "id-" + name, Name: name, Address: "192.0.2.2:7350",
			Version: fsm.Version}},
		fsm.Lead{Peer: "id-" + name, Boot: "boot", Version: fsm.Version},
	} {
		data, err := fsm.Encode(fsm.Header{}, c)
		if err != nil {
			return stateOf{}, err
		}
		if res := state.Apply(fsm.Entry{Index: uint64(i + 1), Term: 1, Data: data}); res.Err() != nil {
			return stateOf{}, res.Err()
		}
	}
	return stateOf{state.View()}, nil
}

func (s stateOf) Read(context.Context) (fsm.View, error) { return s.view, nil }

// A witness asks the log who leads, and an endpoint answers in leader-elector's
// claims: with no name while the leader is not known for certain.
func Example() {
	log, err := ledBy("h2")
	if err != nil {
		fmt.Println(err)
		return
	}
	witness := elector.NewWitness(elector.WitnessOptions{
		Log: log, Elections: []elector.ElectionSource{{}}, // the zero one names the peer that leads
		Bound: 40 * time.Millisecond, Now: lease.Boottime, Logger: slog.New(slog.DiscardHandler),
	})
	endpoint := httptest.NewServer(elector.NewEndpoint(elector.EndpointOptions{
		Source: witness.Elections()[0], Now: lease.Boottime, Logger: slog.New(slog.DiscardHandler),
	}))
	defer endpoint.Close()
	ask := func() string {
		answer, err := http.Get(endpoint.URL + "/any/path")
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return err.Error()
		}
		return string(body)
	}
	fmt.Println(ask())

	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	asking.Go(func() { witness.Run(ctx) })
	var body string
	err = testwait.Poll(ctx, testwait.Limit, "the witness vouches for a name", func() error {
		if body = ask(); !strings.Contains(body, "h2") {
			return fmt.Errorf("the endpoint answers %s", body)
		}
		return nil
	})
	cancel()
	asking.Wait()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(body)
	// Output:
	// {"name":""}
	// {"name":"h2"}
}
