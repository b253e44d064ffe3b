package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/test/sandbox/machine"
	"github.com/trivet-ha/trivet/test/sandbox/simironic"
)

// nics is how many network interfaces a machine has; Ironic knows the first.
const nics = 4

// rack are machines, and an Ironic in memory that manages them. Its HTTP is
// real; so is what the peers spend on it.
type rack struct {
	url       string
	machines  []machine.Machine
	documents [][]byte // what their ramdisks send
	bytes     int      // of all documents
	on, off   atomic.Int64
	lit       map[string]chan struct{} // by UUID: closed when the machine is switched on
	ironic    *simironic.Server
	web       *stub
}

func newRack(ctx context.Context, nodes int) (*rack, error) {
	r := &rack{lit: make(map[string]chan struct{}, nodes)}
	r.ironic = simironic.New(simironic.Options{OnPower: r.power})
	dice := rand.New(rand.NewPCG(1, 2)) // the same machines in every run
	for n := range nodes {
		m := hardware(dice, n)
		if err := r.ironic.Enroll(simironic.Enrolment{UUID: m.UUID, BMC: m.BMC, MACs: m.MACs[:1]}); err != nil {
			return nil, err
		}
		document := machine.Inventory(m)
		r.machines, r.documents = append(r.machines, m), append(r.documents, document)
		r.lit[m.UUID] = make(chan struct{})
		r.bytes += len(document)
	}
	lc := net.ListenConfig{}
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the Ironic in memory: %w", err)
	}
	r.url = "http://" + ln.Addr().String()
	r.web = newStub(ln, r.ironic)
	return r, nil
}

// hardware is the n-th machine. Its UUID says nothing about its neighbours'.
func hardware(dice *rand.Rand, n int) machine.Machine {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], dice.Uint64())
	binary.BigEndian.PutUint64(id[8:], dice.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4
	m := machine.Machine{UUID: id.String(), BMC: fmt.Sprintf("198.%d.%d.%d", 18+n/62_500, n/250%250, 1+n%250)}
	for nic := range nics {
		m.MACs = append(m.MACs, fmt.Sprintf("52:54:%02x:%02x:%02x:%02x", nic, n>>16, n>>8&0xff, n&0xff))
	}
	return m
}

// power counts what the peers switched. A machine is switched on once in a run.
func (r *rack) power(node, target string) {
	if target == "power off" {
		r.off.Add(1)
		return
	}
	r.on.Add(1)
	close(r.lit[node])
}

// awaitOn waits until the n-th machine was switched on.
func (r *rack) awaitOn(ctx context.Context, n int) error {
	select {
	case <-r.lit[r.machines[n].UUID]:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *rack) close() error {
	err := r.web.close()
	r.ironic.Close()
	return err
}

// pause waits, less long if ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
