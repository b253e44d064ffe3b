package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/trivet-ha/trivet/client"
)

// peer answers as a peer that introspects node-1 and has finished at once.
func peer(w http.ResponseWriter, r *http.Request) {
	const status = `{"error":null,"finished":true,"finished_at":"2026-11-23T06:02:11.5","links":[],` +
		`"started_at":"2026-11-23T06:00:00","state":"finished","uuid":"7c6f3b1e-6a3f-4d3b-9a51-0b1c2d3e4f50"}`
	w.Header().Set("Content-Type", "application/json")
	switch r.Method + " " + r.URL.Path {
	case "POST /v1/introspection/node-1":
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, "{}")
	case "GET /v1/introspection/node-1":
		fmt.Fprint(w, status)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":{"message":"Node node-2 was not found in Ironic","code":"not_found"}}`)
	}
}

// A client knows all peers. The first one here is down: each call goes to the next.
func Example() {
	const down = "http://127.0.0.1:1" // nothing listens on port 1
	up := httptest.NewServer(http.HandlerFunc(peer))
	defer up.Close()

	c, err := client.New(client.Options{Servers: []string{down, up.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := c.Start(ctx, "node-1", client.StartOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	now, err := c.Status(ctx, "node-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(now.UUID, now.State, now.Ended())
	fmt.Println(c.Start(ctx, "node-2", client.StartOptions{}))
	// Output:
	// 7c6f3b1e-6a3f-4d3b-9a51-0b1c2d3e4f50 finished true
	// Node node-2 was not found in Ironic
}
