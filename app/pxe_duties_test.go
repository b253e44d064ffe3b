package app

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/recorder"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/test/memlog"
)

// oneFrame is a network on which one frame is heard, and a leadership.
type oneFrame struct {
	firewall.Proof
	*memlog.Log
	frame []byte
}

// Listen implements recorder.Wire.
func (o oneFrame) Listen(ctx context.Context, heard func([]byte, net.HardwareAddr)) error {
	heard(o.frame, nil)
	<-ctx.Done()
	return ctx.Err()
}

// Token and Propose implement firewall.Authority.
func (o oneFrame) Token() fencing.Token { return o.View().Leadership().Token }

func (o oneFrame) Propose(_ context.Context, c fsm.Command) (fsm.Result, error) {
	return o.DoAsLeader(c)
}

// discover is a frame of a machine that asks for an address.
func discover(t *testing.T, mac net.HardwareAddr) []byte {
	t.Helper()
	m, err := dhcpv4.NewDiscovery(mac)
	if err != nil {
		t.Fatal(err)
	}
	body := m.ToBytes()
	ip := append([]byte{0x45, 0}, make([]byte, 18)...)
	ip[9] = 17 // UDP
	binary.BigEndian.PutUint16(ip[2:], uint16(28+len(body)))
	udp := []byte{0, 68, 0, 67, byte((8 + len(body)) >> 8), byte(8 + len(body)), 0, 0}
	return slices.Concat(make([]byte, 6), mac, []byte{8, 0}, ip, udp, body)
}

// What was heard of booting machines is committed before another peer leads, which did not hear it.
func TestHandingOnCommitsWhatWasHeard(t *testing.T) {
	const node, machine = "00000000-0000-4000-8000-00000000000a", "52:54:00:00:00:01"
	for name, leave := range map[string]func(*gate, context.Context){"yield": (*gate).yield, "stop": (*gate).stop} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mac, _ := net.ParseMAC(machine)
				log := memlog.New(t)
				if _, err := log.DoAsLeader(introspection.PutInspected{
					Nodes: []introspection.Inspected{{Node: node, MACs: []string{machine}}}}); err != nil {
					t.Fatal(err)
				}
				wire, quiet := oneFrame{Log: log, frame: discover(t, mac)}, slog.New(slog.DiscardHandler)
				g := &gate{Guard: firewall.NewGuard(firewall.GuardOptions{Logger: quiet}),
					Recorder: recorder.New(wire, log, "a", quiet)}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- g.Recorder.Run(ctx, wire) }()
				synctest.Wait()
				leave(g, t.Context())
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if track, _ := log.View().BootTrack(node); len(track.Steps) != 1 {
					t.Errorf("heard-is-handed-on: the log has %+v", track.Steps)
				}
			})
		})
	}
}
