package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/test/sandbox/machine"
)

// What the original is measured with: enough nodes that a turn takes seconds, and no
// more clients than keep its one thread busy.
const (
	originalNodes   = 200 // half in each of two turns
	originalClients = 8
	originalReady   = time.Minute
	originalProgram = "ironic-inspector"
)

// errNoOriginal says that the package ironic-inspector is not installed.
var errNoOriginal = errors.New("no " + originalProgram + " on the PATH; install Debian's ironic-inspector")

// original is one process of ironic-inspector with SQLite and without a
// message broker, beside an Ironic in memory of its own. It filters nothing.
type original struct {
	rack    *rack
	version string
	address string
	running *exec.Cmd
	next    [2]int // the node whose turn it is, of starts and of callbacks
}

const originalSettings = `[DEFAULT]
listen_address = 127.0.0.1
listen_port = PORT
auth_strategy = noauth
introspection_delay = 0
log_file = DIR/inspector.log
use_stderr = False
transport_url = fake:/
[database]
connection = sqlite:///DIR/inspector.sqlite
[ironic]
auth_type = none
endpoint_override = IRONIC
[service_catalog]
auth_type = none
endpoint_override = http://127.0.0.1:PORT
[pxe_filter]
driver = noop
[processing]
store_data = database
`

// newOriginal starts it and waits for its API.
func newOriginal(ctx context.Context, b *Bench) (o *original, err error) {
	program, err := exec.LookPath(originalProgram)
	if err != nil {
		return nil, errNoOriginal
	}
	version, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("ironic-inspector --version: %w", err)
	}
	dir, err := b.Folder("original")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	o = &original{version: strings.TrimSpace(string(version)), address: ports[0]}
	if o.rack, err = newRack(ctx, originalNodes); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.end())
		}
	}()
	_, port, _ := strings.Cut(o.address, ":")
	settings := strings.NewReplacer("DIR", dir, "PORT", port, "IRONIC", o.rack.url).Replace(originalSettings)
	file := filepath.Join(dir, "inspector.conf")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		return nil, fmt.Errorf("write the configuration of ironic-inspector: %w", err)
	}
	if out, err := exec.CommandContext(ctx, program+"-dbsync", "--config-file", file,
		"upgrade").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("create the database of ironic-inspector: %w\n%s", err, out)
	}
	cmd := exec.Command(program, "--config-file", file)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start ironic-inspector: %w", err)
	}
	o.running = cmd
	ready, cancel := context.WithTimeout(ctx, originalReady)
	defer cancel()
	return o, until(ready, "ironic-inspector answers", func() bool {
		c, err := dialWeb(o.address)
		if err != nil {
			return false
		}
		defer c.close()
		status, _, err := c.do(http.MethodGet, "/v1/introspection", nil)
		return err == nil && status == http.StatusOK
	})
}

// end kills the process and closes its Ironic: nothing of it is needed any more.
func (o *original) end() error {
	var err error
	if o.running != nil {
		err = o.running.Process.Kill()
		_ = o.running.Wait() // it was killed
	}
	return errors.Join(err, o.rack.close())
}

// starts introspects the next half of the nodes, until each is switched on, and
// returns how many were a second.
func (o *original) starts(ctx context.Context) (float64, error) {
	return o.half(ctx, &o.next[0], func(c *webConn, n int) (int, error) {
		status, _, err := c.do(http.MethodPost, "/v1/introspection/"+o.rack.machines[n].UUID, nil)
		return status, err
	}, http.StatusAccepted, o.rack.on.Load)
}

// callbacks posts the data of the next half of the nodes, until each is switched off.
func (o *original) callbacks(ctx context.Context) (float64, error) {
	return o.half(ctx, &o.next[1], func(c *webConn, n int) (int, error) {
		status, _, err := c.do(http.MethodPost, "/v1/continue", o.rack.documents[n])
		return status, err
	}, http.StatusOK, o.rack.off.Load)
}

func (o *original) half(ctx context.Context, next *int, post func(c *webConn, n int) (int, error), want int,
	done func() int64) (float64, error) {
	nodes := make(chan int, originalNodes/2)
	for n := *next; n < *next+originalNodes/2; n++ {
		nodes <- n
	}
	close(nodes)
	*next += originalNodes / 2
	all, began := int64(*next), time.Now()
	err := together(ctx, []string{o.address}, originalClients, func(ctx context.Context, c *webConn) error {
		for n := range nodes {
			if status, err := post(c, n); err != nil || status != want {
				return errors.Join(err, fmt.Errorf("ironic-inspector answered %d, not %d: %s", status, want, c.answer))
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	ended, cancel := context.WithTimeout(ctx, apiLimit)
	defer cancel()
	err = until(ended, "ironic-inspector is done with all", func() bool { return done() >= all })
	return originalNodes / 2 / time.Since(began).Seconds(), err
}

// statuses asks for the status of nodes for as long and returns how many answers came
// a second.
func (o *original) statuses(ctx context.Context, round int) (float64, error) {
	return askForStatus(ctx, []string{o.address}, originalClients, o.rack.machines, uint64(round))
}

// beside measures the original before and after something, and returns the mean of
// both turns.
func beside(ctx context.Context, turn func(context.Context) (float64, error), something func() error) (float64, error) {
	first, err := turn(ctx)
	if err != nil {
		return 0, err
	}
	if err := something(); err != nil {
		return 0, err
	}
	second, err := turn(ctx)
	return (first + second) / 2, err
}

// askForStatus keeps clients asking for the status of machines at random for
// statusTime and returns the answers a second.
func askForStatus(ctx context.Context, addresses []string, clients int, machines []machine.Machine,
	seed uint64) (float64, error) {
	var done atomic.Int64
	began := time.Now()
	err := together(ctx, addresses, clients, func(ctx context.Context, c *webConn) error {
		dice := rand.New(rand.NewPCG(seed, rand.Uint64()))
		for time.Since(began) < statusTime && ctx.Err() == nil {
			status, answer, err := c.do(http.MethodGet, "/v1/introspection/"+machines[dice.IntN(len(machines))].UUID, nil)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("answered %d: %s", status, answer)
			}
			if err != nil {
				return err
			}
			done.Add(1)
		}
		return nil
	})
	return float64(done.Load()) / time.Since(began).Seconds(), err
}
