package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/doctor/dnsmasq"
	"github.com/trivet-ha/trivet/internal/portholder"
	"github.com/trivet-ha/trivet/test/testenv"
)

// write makes a file below dir, and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// As the kernel writes them.
const (
	udpTable = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n" +
		" 5219: 00000000:0043 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 22033 2 0000000000000000 0\n"
	rawTable = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n" +
		"  112: 00000000:0070 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 22034 2 0000000000000000 0\n"
)

func TestSockets(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "self/net/udp", udpTable)
	write(t, dir, "self/net/raw", rawTable)
	g := &gathering{o: Options{proc: dir, holdersOf: func(_ string, at netip.AddrPort) ([]portholder.Holder, error) {
		return map[uint16][]portholder.Holder{
			portDHCP: {{Program: "dnsmasq", PID: 73, Unit: "site-dhcp.service"}, {Program: "dnsmasq", PID: 74, Device: 1 << 20}},
			portTFTP: {{Program: "in.tftpd", PID: 75, Unit: "tftpd-hpa.service"},
				{Program: "in.tftpd", PID: 76, Device: 1 << 20}},
		}[at.Port()], nil
	}}}
	g.sockets()
	if want := []doctor.Taken{
		{Port: portTFTP, By: "in.tftpd (pid 75, tftpd-hpa.service)", Unit: "tftpd-hpa.service"}}; !slices.Equal(
		g.facts.DHCP.Taken, want) {
		t.Errorf("taken: %+v, want %+v", g.facts.DHCP.Taken, want)
	}
	if !slices.Equal(g.servers, []string{"site-dhcp.service"}) {
		t.Errorf("early-server: DHCP is served by %q", g.servers)
	}
	if !g.facts.DHCP.Listening || g.facts.DHCP.Program != "dnsmasq" || !g.facts.Address.VRRP {
		t.Errorf("%+v", g.facts)
	}
	quiet := &gathering{o: Options{proc: t.TempDir(),
		holdersOf: func(string, netip.AddrPort) ([]portholder.Holder, error) {
			return nil, errors.ErrUnsupported
		}}}
	quiet.sockets()
	if quiet.facts.DHCP.Listening || quiet.facts.Address.VRRP {
		t.Errorf("nothing there: %+v", quiet.facts)
	}
}

// TestDHCPOfAnotherInterface has libvirt's dnsmasq on virbr0, and none of Trivet's.
func TestDHCPOfAnotherInterface(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "self/net/udp", udpTable)
	for device, here := range map[uint32]bool{1 << 20: false, 0: true, uint32(lo.Index): true} {
		for _, port := range []uint16{portDHCP, portDHCP6} {
			g := &gathering{o: Options{proc: dir, holdersOf: func(_ string, at netip.AddrPort) ([]portholder.Holder, error) {
				if at.Port() != port {
					return nil, nil
				}
				return []portholder.Holder{{Program: "dnsmasq", PID: 74, Unit: "libvirtd.service", Device: device}}, nil
			}}}
			g.o.Config.Firewall.Interface = "lo"
			g.sockets()
			if d := g.facts.DHCP; d.Listening != here || (d.Program != "") != (here && port == portDHCP) {
				t.Errorf("dhcp-elsewhere: port %d of the interface with index %d: %+v, listening on lo: %v", port, device, d, here)
			}
		}
	}
	untold := &gathering{o: Options{proc: dir, holdersOf: func(string, netip.AddrPort) ([]portholder.Holder, error) {
		return nil, errors.ErrUnsupported
	}}}
	if untold.sockets(); !untold.facts.DHCP.Listening {
		t.Error("dhcp-elsewhere: without socket diagnostics port 67 counts as another interface's")
	}
}

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func onHost(c config.Config) *gathering {
	g := &gathering{o: Options{Config: c}}
	g.facts.Plan = PlanOf(c)
	g.facts.Links = []doctor.Link{
		{Name: "lo", Up: true, Addresses: prefixes("127.0.0.1/8", "::1/128")},
		{Name: "pxe", Up: true, Addresses: prefixes("192.0.2.200/32", "192.0.2.1/24")},
		{Name: "site", Up: true, Addresses: prefixes("10.0.0.1/8")},
	}
	return g
}

// TestARPIgnore writes the sysctl as the kernel shows it: the greater value counts.
func TestARPIgnore(t *testing.T) {
	for _, c := range []struct {
		all, own string
		want     int
	}{{"0", "0", 0}, {"2", "0", 2}, {"1", "3", 3}, {"8", "1", 8}} {
		proc := t.TempDir()
		for name, value := range map[string]string{"all": c.all, "eth0": c.own, "eth1": "x"} {
			dir := filepath.Join(proc, "sys/net/ipv4/conf", name)
			if err := errors.Join(os.MkdirAll(dir, 0o700),
				os.WriteFile(filepath.Join(dir, "arp_ignore"), []byte(value+"\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		links := []doctor.Link{{Name: "eth0"}, {Name: "eth1"}}
		if err := ReadARPIgnore(proc, "eth0", links); err != nil || links[0].ARPIgnore != c.want || links[1].ARPIgnore != 0 {
			t.Errorf("all %s, eth0 %s: %+v, %v", c.all, c.own, links, err)
		}
		if err := ReadARPIgnore(proc, "eth9", links); err != nil {
			t.Errorf("a link that is not there: %v", err)
		}
		if err := ReadARPIgnore(proc, "eth1", links); err == nil {
			t.Error("a value that is no number is taken")
		}
		if err := ReadARPIgnore(t.TempDir(), "eth0", links); err != nil {
			t.Errorf("/proc/sys is hidden, as the packaged unit does: %v", err)
		}
	}
}

func TestHTTP(t *testing.T) {
	large := strings.Repeat("k", 1<<20)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/kernel":
			http.ServeContent(w, r, "kernel", testTime(), strings.NewReader(large))
		case "/whole": // a server that knows no ranges
			fmt.Fprint(w, large)
		case "/script":
			fmt.Fprint(w, "#!ipxe\n"+large)
		case "/page", "/called.html": // by its content, and by its name alone
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, map[string]string{"/page": "\n<!DOCTYPE html>"}[r.URL.Path]+large[:9])
		case "/empty":
		default:
			http.NotFound(w, r)
		}
	}))
	defer web.Close()
	for path, want := range map[string]string{
		"/kernel": "1048576", "/empty": "0", "/gone": "the server answers 404 Not Found", "/script": "script",
		"/page": "the server answers 200 OK with a page of HTML", "/called.html": "9",
	} {
		head, size, err := fetchHead(t.Context(), web.URL+path)
		got := fmt.Sprint(size)
		if err != nil {
			got = err.Error()
		}
		if doctor.IsScript(head) && len(head) >= maxScript {
			got = "script"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if head, size, err := fetchHead(t.Context(), web.URL+"/whole"); err != nil || size < enough || len(head) > maxScript {
		t.Errorf("%d bytes of %d, %v", len(head), size, err)
	}
	if _, _, err := fetchHead(t.Context(), "nfs://a/k"); err == nil {
		t.Error("nfs was fetched")
	}
	gone := "http://" + testenv.RefusingAddress(t)
	if _, _, err := fetchHead(t.Context(), gone+"/kernel"); err == nil || strings.Contains(err.Error(), gone) {
		t.Errorf("a server that is gone: %v", err)
	}
}

// tftpServer answers as a server of TFTP does, with or without knowing tsize.
// It ends with the test.
func tftpServer(t *testing.T, files map[string]string, options bool) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		work.Wait()
	})
	work.Go(func() {
		buffer, asked := make([]byte, 1024), make(map[netip.AddrPort]string)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return // the test has ended
			}
			var reply []byte
			switch p := buffer[:n]; p[1] {
			case 1:
				name, _, _ := strings.Cut(string(p[2:]), "\x00")
				text, ok := files[name]
				switch asked[from] = text; {
				case !ok:
					reply = []byte("\x00\x05\x00\x01file " + name + " not found\x00")
				case options:
					reply = fmt.Appendf(nil, "\x00\x06tsize\x00%d\x00", len(text))
				default:
					reply = block(text, 1)
				}
			case 4:
				file, next := asked[from], int(p[2])<<8+int(p[3])+1
				if (next-1)*tftpBlock > len(file) {
					continue // that was the last
				}
				reply = block(file, next)
			default:
				continue
			}
			if _, err := conn.WriteToUDPAddrPort(reply, from); err != nil {
				return
			}
		}
	})
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

func block(file string, n int) []byte {
	from := (n - 1) * tftpBlock
	return append([]byte{0, 3, byte(n >> 8), byte(n)}, file[from:min(from+tftpBlock, len(file))]...)
}

func TestTFTP(t *testing.T) {
	files := map[string]string{"small": "abc", "exact": strings.Repeat("a", tftpBlock),
		"large": strings.Repeat("a", 1<<20), "empty": "", "dir/script": "#!ipxe\n" + strings.Repeat("#", 2000)}
	for _, options := range []bool{true, false} {
		server := tftpServer(t, files, options)
		for name, text := range files {
			head, size, err := fetchHead(t.Context(), fmt.Sprintf("tftp://%v/%s", server, name))
			want := int64(len(text))
			if !options && name == "large" {
				want = enough // as much as was read
			}
			if err != nil || size != want || !strings.HasPrefix(text, string(head)) ||
				doctor.IsScript(head) && len(head) != len(text) {
				t.Errorf("%s: %d bytes of %d, want %d: %v", name, len(head), size, want, err)
			}
		}
		if _, _, err := fetchHead(t.Context(), fmt.Sprintf("tftp://%v/gone", server)); err == nil ||
			!strings.Contains(err.Error(), "file gone not found") {
			t.Errorf("gone: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u := &url.URL{Scheme: "tftp", Host: "127.0.0.1:9", Path: "/x"}
	if _, _, err := tftpGet(ctx, u); err == nil {
		t.Error("nobody answered, and that is no error")
	}
}

// Everything that dnsmasq names is fetched, and then what its script names.
func TestBoot(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ramdisk") }))
	defer web.Close()
	script := "#!ipxe\nkernel k initrd=ramdisk ipa-inspection-callback-url=http://localhost:5050/v1/continue || goto failed\ninitrd --name ramdisk " +
		web.URL + "/r || goto failed\ninitrd ${base}/other\n"
	server := tftpServer(t, map[string]string{"trivet.ipxe": script, "undionly.kpxe": "loader"}, true)
	c := config.Default()
	c.Firewall.Interface = "pxe"
	g := onHost(c)
	at := fmt.Sprintf("tftp://%v/", server)
	g.facts.DHCP.Conf.Boots = []dnsmasq.Boot{
		{Name: at + "trivet.ipxe", Place: dnsmasq.Place{File: "/c", Line: 1}}, {Name: at + "undionly.kpxe"},
		{Name: at + "undionly.kpxe"}, {Name: at + "gone.efi"},
	}
	g.boot(t.Context())
	var got []string
	for _, f := range g.facts.Boot.Files {
		got = append(got, fmt.Sprintf("%s %s %d %v", f.Kind, f.URL, f.Size, f.Error == ""))
	}
	want := []string{
		fmt.Sprintf("script %strivet.ipxe %d true", at, len(script)), "loader " + at + "undionly.kpxe 6 true",
		"loader " + at + "gone.efi 0 false",
		"kernel " + at + "k 0 false", "ramdisk " + web.URL + "/r 7 true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if g.facts.Boot.Callback != "http://localhost:5050/v1/continue" || !slices.Contains(g.facts.Boot.Hosts, "127.0.0.1") ||
		len(g.gaps) != 1 {
		t.Errorf("%+v, gaps %v", g.facts.Boot, g.gaps)
	}
	if where, err := g.bootURL(dnsmasq.Boot{Name: "trivet.ipxe"}); err != nil || where != "tftp://192.0.2.1/trivet.ipxe" {
		t.Errorf("%s, %v", where, err)
	}
}

// This host, whatever it is, with a configuration of the test.
func TestGather(t *testing.T) {
	dir := t.TempDir()
	c := config.Default()
	c.Name, c.Firewall.Interface, c.API.Listen = "h1", "lo", ":5050"
	c.Doctor.DnsmasqConf = []string{
		write(t, dir, "dnsmasq.conf", "dhcp-range=192.0.2.10,192.0.2.20\nconf-file=/nowhere\n")}
	f := Gather(t.Context(), Options{Config: c, Table: "trivet_pxe", Chains: "TRIVET-", Now: time.Now})
	if f.Peer != "h1" || f.Plan.APIPort != 5050 || len(f.DHCP.Conf.Ranges) != 1 {
		t.Errorf("%+v", f)
	}
	if !slices.ContainsFunc(f.Links, func(l doctor.Link) bool { return l.Name == "lo" }) {
		t.Errorf("links: %+v", f.Links)
	}
	if !slices.ContainsFunc(f.Gaps, func(g doctor.Gap) bool { return strings.Contains(g.What, "/nowhere") }) {
		t.Errorf("gaps: %+v", f.Gaps)
	}
}

// Trivet's own tables are found by family and name, among those of other programs.
func TestTables(t *testing.T) {
	g := gathering{o: Options{Table: "trivet_pxe", AddressTable: "trivet_address"}}
	g.tables([]byte(`{"nftables": [{"metainfo": {"version": "1.0.6", "json_schema_version": 1}},
		{"table": {"family": "ip", "name": "filter", "handle": 1}},
		{"table": {"family": "arp", "name": "trivet_address", "handle": 2}},
		{"table": {"family": "inet", "name": "trivet_address", "handle": 3}}]}`))
	want := []string{"arp trivet_address", "inet trivet_address"}
	if f := g.facts.Filter; f.NftTable || !slices.Equal(f.AddressTables, want) {
		t.Errorf("tables of the address %q, that of the filter %v", f.AddressTables, f.NftTable)
	}
	g.tables([]byte(`{"nftables": [{"table": {"family": "inet", "name": "trivet_pxe", "handle": 4}}]}`))
	if !g.facts.Filter.NftTable || len(g.gaps) > 0 {
		t.Errorf("that of the filter %v, gaps %v", g.facts.Filter.NftTable, g.gaps)
	}
	if g.tables([]byte("Error: syntax")); len(g.gaps) != 1 {
		t.Errorf("what is no list leaves %v", g.gaps)
	}
}

func TestReadIsBounded(t *testing.T) {
	dir := t.TempDir()
	large := write(t, dir, "large", strings.Repeat("a", maxFile+1))
	if _, err := (files{}).Read(large); err == nil {
		t.Error("a file without end was read")
	}
	if _, err := (files{}).Read(dir); err == nil {
		t.Error("a directory was read")
	}
}

func testTime() time.Time { return time.Unix(1_800_000_000, 0) }

func TestServerBeforeTheFilter(t *testing.T) {
	const filter = "LoadState=loaded\nAfter=nftables.service\n"
	for text, want := range map[string]bool{
		"LoadState=loaded\nAfter=basic.target network.target\n\n" + filter:                         true,
		"LoadState=loaded\nAfter=basic.target trivet-firewall.service network.target\n\n" + filter: false,
		"LoadState=loaded\nAfter=basic.target\n\nLoadState=not-found\nAfter=\n":                    false,
		"LoadState=loaded\nAfter=basic.target\n":                                                   false,
		"LoadState=loaded\nAfter=trivet-firewall.service.d basic.target\n\n" + filter:              true,
	} {
		if got := isEarly(text); got != want {
			t.Errorf("early-server: %q: %v", text, got)
		}
	}
}

func TestUnit(t *testing.T) {
	for text, want := range map[string]doctor.Unit{
		"LoadState=loaded\nActiveState=failed\nUnitFileState=disabled\n": {Load: "loaded", Active: "failed",
			Enabled: "disabled"},
		"LoadState=not-found\nActiveState=inactive\nUnitFileState=\n": {Load: "not-found", Active: "inactive"},
	} {
		if got := unitOf(text); *got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
