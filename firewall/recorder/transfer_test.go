package recorder

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What a server answers by HTTP ends a transfer: well, or with its words.
func TestTransfersByHTTPAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.led(func() {
			s.lease("trivet.ipxe", ipxe()...)
			for port, answer := range []string{"200 OK", "404 Not Found", "399 ?", "400 Bad Request", "fine"} {
				from := fmt.Sprintf("%s:%d", given, 40000+port)
				s.send(segment(hardware(t, machine1), own, from, hostAt+":80",
					fmt.Sprintf("GET /file%d HTTP/1.1\r\n", port)))
				s.send(segment(own, hardware(t, machine1), hostAt+":80", from, "HTTP/1.1 "+answer+"\r\n"))
			}
		})
		at := "http://" + hostAt + ":80/file"
		want := fmt.Sprintf("fetched %[1]s0, failed %[1]s1, fetched %[1]s2, failed %[1]s3, failed %[1]s4", at)
		if got := told(s.track()); !strings.HasSuffix(got, want) {
			t.Errorf("told is %s, want %s", got, want)
		}
	})
}

// A transfer that is not broken off ends by silence: as abandoned, or, where just the blocks are
// missing that the kernel leaves out, as fetched.
func TestSilentTransfers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.led(func() {
			s.fetchOf(2070, "half", 12800, 6400, false)
			s.fetch(2071, "whole", sampled+3, false)
			s.fetch(2073, "small", 20, false) // whose last block has the size of blocks that others choose
			s.send(datagram(hardware(t, machine1), own, given+":2072", hostAt+":69", []byte("\x00\x01nothing\x00octet\x00")))
			time.Sleep(silence + 2*noteEvery)
		})
		got := strings.Split(told(s.track()), ", ")
		slices.Sort(got)
		if want := []string{"abandoned half", "abandoned nothing", "fetched small",
			"fetched whole"}; !slices.Equal(got, want) {
			t.Errorf("told is %q, want %q", got, want)
		}
	})
}
