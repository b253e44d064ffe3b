//go:build e2e

package rawsocket

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/test/netns"
)

// greeting is a frame to everybody of an EtherType for experiments.
func greeting(text string) []byte {
	frame := append(bytes.Repeat([]byte{0xff}, 6), 2, 0, 0, 0, 0, 1, 0x88, 0xb5)
	return append(frame, text+strings.Repeat(" ", 46)...)
}

const experiments = 0x88b5

// open opens a socket on a host's link.
func open(t *testing.T, h *netns.Host, link string, etherType uint16, filter ...bpf.Instruction) Socket {
	t.Helper()
	program, err := bpf.Assemble(filter)
	if err != nil {
		t.Fatal(err)
	}
	var s Socket
	index := h.Link(link).Attrs().Index
	h.Do(func() (err error) {
		s, err = Open(index, etherType, program)
		return err
	})
	t.Cleanup(func() { _ = s.Close() }) // a test may have closed it
	return s
}

// heard are the texts that come, until one is "end".
func heard(t *testing.T, s Socket) (all []string) {
	t.Helper()
	end := false
	err := s.Listen(t.Context(), 10*time.Second, func(frame []byte) bool {
		text := strings.TrimSpace(string(frame[14:]))
		end = text == "end"
		if !end {
			all = append(all, text)
		}
		return end
	})
	if err != nil || !end {
		t.Fatalf("heard %q, end: %v, %v", all, end, err)
	}
	return all
}

func TestFramesArrive(t *testing.T) {
	a, b := netns.New(t), netns.New(t)
	a.Cable("lan", b, "lan")
	from, to := open(t, a, "lan", experiments), open(t, b, "lan", experiments)
	noB := []bpf.Instruction{bpf.LoadAbsolute{Off: 14, Size: 1}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: 'b', SkipTrue: 1},
		bpf.RetConstant{Val: MaxFrame}, bpf.RetConstant{Val: 0}}
	picky, other := open(t, b, "lan", experiments, noB...), open(t, b, "lan", unix.ETH_P_IP)
	for _, text := range []string{"hello", "bye", "end"} {
		if err := from.Send(greeting(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(heard(t, to), " "); got != "hello bye" {
		t.Errorf("heard %q", got)
	}
	if got := strings.Join(heard(t, picky), " "); got != "hello" {
		t.Errorf("heard %q through a filter", got)
	}
	for name, s := range map[string]Socket{"of another EtherType": other, "of the sender": from} {
		err := s.Listen(t.Context(), 20*time.Millisecond, func([]byte) bool { return true })
		if err != nil || s.pending(t) {
			t.Errorf("the socket %s heard something, or: %v", name, err)
		}
	}
}

// pending reports whether a frame waits to be heard.
func (s Socket) pending(t *testing.T) bool {
	t.Helper()
	if err := s.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := s.Read(make([]byte, MaxFrame))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

func TestListenEnds(t *testing.T) {
	h := netns.New(t)
	h.Cable("lan", h, "lan2")
	s := open(t, h, "lan", experiments)
	never := func([]byte) bool { return false }
	if err := s.Listen(t.Context(), 10*time.Millisecond, never); err != nil {
		t.Errorf("silence: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Listen(ctx, time.Hour, never); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its context ended: %v", err)
	}
	if err := s.Listen(ctx, time.Hour, never); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its context had ended before: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context(), time.Hour, never); err == nil {
		t.Error("a closed socket hears nothing, and says nothing of it")
	}
}

func TestMissingCapabilityIsNamed(t *testing.T) {
	h := netns.New(t)
	err := h.Try(func() error { // of this one thread
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			return err
		}
		_, err := Open(1, experiments, nil)
		return err
	})
	if !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "CAP_NET_RAW") {
		t.Errorf("without the capability: %v", err)
	}
}
