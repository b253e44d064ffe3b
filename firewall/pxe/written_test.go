package pxe

import (
	"net/netip"
	"reflect"
	"testing"
	"time"
)

// TestWrittenIsRead: what was said of a server and a boot is read from their texts, whole.
func TestWrittenIsRead(t *testing.T) {
	pool := func(text string) Pool {
		p, err := ParsePool(text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	want := Server{Pools: []Pool{pool("192.0.2.30-192.0.2.60"), pool("2001:db8::30-2001:db8::60")},
		Router: netip.MustParseAddr("192.0.2.254"), Lease: time.Hour, Root: "/tftpboot", Batch: 300,
		LoaderURLs: []string{"http://192.0.2.5/boot/ipxe", "http://[2001:db8::5]/ipxe"}}
	s := want
	s.Interface = "br-pxe"
	s.Addresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8::1/64")}
	text, err := s.Config()
	if got := ReadConfig(text); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("written-is-read: %v: %+v, want %+v", err, got, want)
	}
	s.Router = netip.Addr{}
	if text, err = s.Config(); err != nil || ReadConfig(text).Router.IsValid() {
		t.Errorf("written-is-read: %v: a router that is none", err)
	}
	boot := Boot{Callback: "http://192.0.2.10:5055/v1/continue,http://h1:5055/v1/continue", Kernel: "http://192.0.2.5/k",
		Ramdisk: "r", Arguments: "a=b console=ttyS0"}
	text, err = boot.Script()
	if got, lists := ReadScript(text); err != nil || got != boot || !lists {
		t.Errorf("written-is-read: %v: %+v (lists %t), want %+v", err, got, lists, boot)
	}
	// As v0.2.0 wrote it.
	s = ReadConfig("tftp-max=200\ndhcp-range=192.0.2.128,192.0.2.169,255.255.255.0,900s\ndhcp-option=option:router\n")
	want = Server{Batch: 200, Lease: ShortLease, Pools: []Pool{pool("192.0.2.128-192.0.2.169")}}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("written-is-read: of v0.2.0 %+v, want %+v", s, want)
	}
}
