//go:build e2e

package attacktest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/test/testwait"
)

// attackerOrder in the environment makes this program an attacker, as JSON: one with a
// process of its own, since the peers and machines of the test would wait for it.
const attackerOrder = "TRIVET_ATTACKTEST_ATTACKER"

// order is what an attacker does.
type order struct {
	API   string
	Conns int // of each kind
}

// kinds are what the connections of an attacker send: a body that never comes, requests
// whose answers nobody takes, a head without end, a document without an end.
func kinds() []string {
	const body = 8<<20 - 1
	var lines strings.Builder
	for n := range 1 << 14 {
		fmt.Fprintf(&lines, "%x:\r\n", n)
	}
	return []string{
		"GET /v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
		strings.Repeat("GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n", 10),
		"GET /v1 HTTP/1.1\r\nHost: x\r\n" + lines.String(),
		fmt.Sprintf("POST /v1/continue HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", body,
			strings.Repeat("x", body-1)),
	}
}

// beAttacker opens connections of each kind, again and again, until stdin ends.
func beAttacker(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx, quiet := context.WithCancel(context.Background())
	var attack sync.WaitGroup
	for n, text := range kinds() {
		attack.Go(func() {
			f := &flood{ctx: ctx, api: o.API}
			defer f.end()
			for testwait.Rest(ctx, 200*time.Millisecond) { // held for so long
				f.end()
				f.open(min(o.Conns, 1+(64<<20)/len(text)), addresses(n+1, 5), text)
			}
		})
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	quiet()
	attack.Wait()
	return err
}

// attack floods the victim in another process until quiet is called, or the test ends.
func (v *victim) attack(conns int) (quiet func()) {
	v.Helper()
	text, err := json.Marshal(order{API: v.api, Conns: conns})
	if err != nil {
		v.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), attackerOrder+"="+string(text))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		v.Fatal(err)
	}
	quiet = sync.OnceFunc(func() {
		_ = stdin.Close() // it ends by that
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if err, late := testwait.Take(limit, ended, "the attacker ends"); late != nil || err != nil {
			v.Error("the attacker: ", err, late, cmd.Process.Kill())
		}
	})
	v.Cleanup(quiet)
	return quiet
}
