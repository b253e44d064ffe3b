package app

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/trivet-ha/trivet/config"
)

// A certificate is for whatever clients may call this peer by, the address that
// is on another host now among it.
func TestServerNames(t *testing.T) {
	c := config.Default()
	c.API.Listen = "[2001:db8::7]:5050"
	c.FloatingIP.Address = "192.0.2.10"
	c.API.TLS.Names = []string{"api.example.org", "h1"}
	p := &Peer{opts: Options{Config: c}, id: Identity{Name: "h1", Address: "192.0.2.1:7350"}}
	got := p.serverNames()
	for _, want := range []string{"h1", "localhost", "127.0.0.1", "::1", "192.0.2.10", "192.0.2.1", "2001:db8::7", "api.example.org"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not among %q", want, got)
		}
	}
	slices.Sort(got)
	if len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("a name is there twice: %q", got)
	}
	for _, listen := range []string{":5050", "0.0.0.0:5050", "[::]:5050"} {
		p.opts.Config.API.Listen = listen
		for _, name := range p.serverNames() {
			if ip := net.ParseIP(name); name == "" || ip != nil && ip.IsUnspecified() {
				t.Errorf("%s: a certificate for %q", listen, name)
			}
		}
	}
}

func TestDefaultProxiesAreThisHost(t *testing.T) {
	proxies := networks(config.Default().API.TrustedProxies)
	for address, want := range map[string]bool{"127.0.0.1": true, "127.9.9.9": true, "::1": true, "192.0.2.1": false, "::2": false} {
		found := slices.ContainsFunc(proxies, func(n netip.Prefix) bool { return n.Contains(netip.MustParseAddr(address)) })
		if found != want {
			t.Errorf("%s is a proxy: %v", address, found)
		}
	}
}
