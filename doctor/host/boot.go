package host

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/doctor/dnsmasq"
)

// Bounds of what is fetched.
const (
	fetchLimit = 3 * time.Second // for one file
	maxFetches = 24              // files; more are a gap
	// maxCallbacks bounds the URLs of a script whose hosts are looked up.
	maxCallbacks = 16
	fetchAtOnce  = 4
	enough       = 1 << 10  // bytes of a file, which then is there
	maxScript    = 64 << 10 // bytes of a script, which is read whole
)

// order is a file to fetch.
type order struct{ url, kind, named string }

// boot fetches what dnsmasq names, as machines do, and what the scripts among
// it name.
func (g *gathering) boot(ctx context.Context) {
	var orders []order
	for _, b := range g.facts.DHCP.Conf.Boots {
		where, err := g.bootURL(b)
		if err != nil {
			g.gap("boot", b.Name+" ("+b.Place.String()+"): "+err.Error())
			continue
		}
		orders = appendNew(orders, order{where, "loader", b.Place.String()})
	}
	scripts := g.fetch(ctx, orders)
	var more []order
	for base, text := range scripts {
		more = append(more, g.script(ctx, base, text)...)
	}
	g.fetch(ctx, more)
}

// appendNew keeps one order for each URL.
func appendNew(orders []order, o order) []order {
	if slices.ContainsFunc(orders, func(has order) bool { return has.url == o.url }) {
		return orders
	}
	return append(orders, o)
}

// bootURL is the URL of the file that a machine boots.
func (g *gathering) bootURL(b dnsmasq.Boot) (string, error) {
	if strings.Contains(b.Name, "://") {
		return b.Name, nil
	}
	server := b.Server
	if server == "" {
		own, _ := doctor.BootLink(g.facts)
		i := slices.IndexFunc(own.Addresses, func(a netip.Prefix) bool { return a.Addr().Is4() && !a.IsSingleIP() })
		if i < 0 {
			return "", errors.New("firewall.interface has no IPv4 address")
		}
		server = own.Addresses[i].Addr().String()
	}
	u := url.URL{Scheme: "tftp", Host: server, Path: "/" + b.Name}
	return u.String(), nil
}

// fetch tries all orders, a few at once, and returns the scripts among them.
func (g *gathering) fetch(ctx context.Context, orders []order) (scripts map[string][]byte) {
	if len(orders) > maxFetches {
		g.gap("boot", "more files are named than are looked at")
		orders = orders[:maxFetches]
	}
	scripts = make(map[string][]byte)
	results := make([]doctor.File, len(orders))
	places := make(chan struct{}, fetchAtOnce)
	var mu sync.Mutex
	var work sync.WaitGroup
	for i, o := range orders {
		work.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			f := doctor.File{URL: o.url, Kind: o.kind, Named: o.named}
			text, size, err := fetchHead(ctx, o.url)
			f.Size = size
			switch {
			case err != nil:
				f.Error = err.Error()
				if strings.HasSuffix(o.url, ".ipxe") {
					f.Kind = "script"
				}
			case doctor.IsScript(text):
				f.Kind = "script"
				mu.Lock()
				scripts[o.url] = text
				mu.Unlock()
			}
			results[i] = f
		})
	}
	work.Wait()
	g.facts.Boot.Files = append(g.facts.Boot.Files, results...)
	return scripts
}

// script notes where the ramdisk of a script reports, and returns what else is
// to be fetched.
func (g *gathering) script(ctx context.Context, base string, text []byte) []order {
	s := doctor.ReadScript(text)
	if s.Callback != "" && g.facts.Boot.Callback == "" {
		g.facts.Boot.Callback = s.Callback
		urls := strings.Split(s.Callback, ",")
		for _, text := range urls[:min(len(urls), maxCallbacks)] {
			g.facts.Boot.Hosts = append(g.facts.Boot.Hosts, resolve(ctx, text)...)
		}
	}
	var out []order
	for _, list := range []struct {
		kind  string
		names []string
	}{{"kernel", s.Kernels}, {"ramdisk", s.Ramdisks}} {
		for _, name := range list.names {
			where, ok := doctor.Resolve(base, name)
			if !ok {
				g.gap("boot", name+" in "+base+" is known to iPXE alone")
				continue
			}
			out = appendNew(out, order{where, list.kind, base})
		}
	}
	return out
}

// resolve returns the addresses of a URL's host, none if it is one or has none.
func resolve(ctx context.Context, text string) []string {
	u, err := url.Parse(text)
	if err != nil {
		return nil
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupHost(ctx, u.Hostname())
	if err != nil {
		return nil // then it is not the floating IP, which is what will be said
	}
	const most = 16
	return addrs[:min(len(addrs), most)]
}
