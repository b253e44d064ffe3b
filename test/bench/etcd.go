package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdClients is how many connections the writers share: with one, the client's
// single HTTP/2 connection is what limits etcd.
const etcdClients = 8

// etcdCluster is three members of etcd, each a process, with their data on the
// same disk as the peers'.
type etcdCluster struct {
	version string
	members []*exec.Cmd
	clients []*clientv3.Client // all talk to the leader
	value   string
	tls     etcdTLS
}

// newEtcd builds etcd and starts three members below root with etcd's own defaults, but
// for mutual TLS 1.3 as peers have it, between members and with clients.
func newEtcd(ctx context.Context, root string) (e *etcdCluster, err error) {
	binary := filepath.Join(root, "etcd")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, ".")
	build.Dir, build.Env = "etcd", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build etcd: %w\n%s", err, out)
	}
	version, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("etcd --version: %w", err)
	}
	e = &etcdCluster{value: strings.Repeat("x", commandSize)}
	if e.tls, err = newEtcdTLS(root); err != nil {
		return nil, err
	}
	_, e.version, _ = strings.Cut(strings.SplitN(string(version), "\n", 2)[0], ": ")
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	ports, err := freePorts(2 * size)
	if err != nil {
		return e, err
	}
	for i := range size {
		if err := e.start(binary, root, i, ports); err != nil {
			return e, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, formLimit)
	defer cancel()
	return e, e.connect(ctx, ports[size:])
}

// start runs one member; ports are those between members, then those for clients.
func (e *etcdCluster) start(binary, root string, i int, ports []string) error {
	var initial []string
	for n := range size {
		initial = append(initial, fmt.Sprintf("etcd%d=https://%s", n, ports[n]))
	}
	name := fmt.Sprintf("etcd%d", i)
	out, err := os.Create(filepath.Join(root, name+".log"))
	if err != nil {
		return fmt.Errorf("log of etcd: %w", err)
	}
	defer out.Close() // the child has its own
	peer, client := "https://"+ports[i], "https://"+ports[size+i]
	cmd := exec.Command(binary, append(e.tls.flags(), "--name", name, "--data-dir", filepath.Join(root, name+".data"),
		"--log-outputs", "stderr", "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--initial-cluster", strings.Join(initial, ","), "--initial-cluster-state", "new")...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	e.members = append(e.members, cmd)
	return nil
}

// connect waits for a leader and connects the clients to it.
func (e *etcdCluster) connect(ctx context.Context, addresses []string) error {
	leader, err := e.leader(ctx, addresses)
	if err != nil {
		return err
	}
	for range etcdClients {
		c, err := clientv3.New(e.config(leader))
		if err != nil {
			return fmt.Errorf("etcd client: %w", err)
		}
		e.clients = append(e.clients, c)
	}
	return nil
}

// config silences the client: it logs every attempt before etcd is up.
func (e *etcdCluster) config(addresses ...string) clientv3.Config {
	return clientv3.Config{Endpoints: addresses, DialTimeout: 5 * time.Second, Logger: zap.NewNop(), TLS: e.tls.client}
}

func (e *etcdCluster) leader(ctx context.Context, addresses []string) (string, error) {
	c, err := clientv3.New(e.config(addresses...))
	if err != nil {
		return "", fmt.Errorf("etcd client: %w", err)
	}
	defer c.Close()
	found := ""
	err = until(ctx, "etcd to elect", func() bool {
		for _, a := range addresses {
			limited, cancel := context.WithTimeout(ctx, time.Second)
			status, err := c.Status(limited, a)
			cancel()
			if err == nil && status.Leader != 0 && status.Leader == status.Header.MemberId {
				found = a
			}
		}
		return found != ""
	})
	return found, err
}

// put is the writer of etcd.
func (e *etcdCluster) put(ctx context.Context, n int) error {
	_, err := e.clients[n%len(e.clients)].Put(ctx, settingKey(n), e.value)
	return err
}

func (e *etcdCluster) close() error {
	var errs []error
	for _, c := range e.clients {
		errs = append(errs, c.Close())
	}
	for _, m := range e.members {
		errs = append(errs, m.Process.Kill())
		if err := m.Wait(); err != nil && m.ProcessState == nil { // killed: the error is the signal
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
