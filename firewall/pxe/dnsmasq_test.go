package pxe

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

func exampleServer() Server {
	return Server{
		Title: "h1\nof three", Interface: "lo",
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8::1/64")},
		Pools: []Pool{
			{netip.MustParseAddr("192.0.2.128"), netip.MustParseAddr("192.0.2.169")},
			{netip.MustParseAddr("2001:db8::1000"), netip.MustParseAddr("2001:db8::1fff")},
		},
		Lease: 30 * time.Minute, Root: "/srv/tftp",
	}
}

// TestConfig compares with what was read by somebody and is kept.
func TestConfig(t *testing.T) {
	got, err := exampleServer().Config()
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/dnsmasq.conf"
	want, err := os.ReadFile(golden)
	if err != nil || got != string(want) {
		t.Errorf("%s differs (%v):\n%s", golden, err, got)
	}
}

// TestNoOrder: dnsmasq remembers no offer. In sequence it would offer one address
// to all machines of a rack, of which one gets it; else each begins to look at a
// place that its MAC, or its DUID and IAID, decides.
func TestNoOrder(t *testing.T) {
	text, err := exampleServer().Config()
	if err != nil || strings.Contains(text, "dhcp-sequential-ip") || !strings.Contains(text, "\nno-ping\n") {
		t.Errorf("%v:\n%s", err, text)
	}
}

// TestConfigTellsEachSubnetItsOwn has two subnets of each family on the interface. What
// holds in one of them is told only there: a range in another file, for machines behind a
// relay, gets none of it, and dnsmasq tells them their relay as router by itself.
func TestConfigTellsEachSubnetItsOwn(t *testing.T) {
	s := exampleServer()
	for _, more := range []struct {
		address, first, last string
	}{{"198.18.0.1/16", "198.18.128.0", "198.18.255.254"}, {"2001:db8:1::1/64", "2001:db8:1::1000", "2001:db8:1::1fff"}} {
		s.Addresses = append(s.Addresses, netip.MustParsePrefix(more.address))
		s.Pools = append(s.Pools, Pool{netip.MustParseAddr(more.first), netip.MustParseAddr(more.last)})
	}
	s.Router = netip.MustParseAddr("198.18.0.254")
	text, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"dhcp-range=set:subnet1,192.0.2.128,", "dhcp-range=set:subnet2,2001:db8::1000,",
		"dhcp-range=set:subnet3,198.18.128.0,", "dhcp-range=set:subnet4,2001:db8:1::1000,",
		"\ndhcp-option=tag:subnet1,option:router\n", "\ndhcp-option=tag:subnet3,option:router,198.18.0.254\n",
		"\ndhcp-option=tag:subnet2,tag:ipxe,option6:bootfile-url,tftp://[2001:db8::1]/trivet.ipxe\n",
		"\ndhcp-option=tag:subnet4,tag:ipxe,option6:bootfile-url,tftp://[2001:db8:1::1]/trivet.ipxe\n",
		"\ndhcp-option=tag:subnet4,tag:!ipxe,tag:efi-x646,option6:bootfile-url,tftp://[2001:db8:1::1]/snponly.efi\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("subnets: no %q in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		names := strings.Contains(line, "192.0.2.") || strings.Contains(line, "198.18.") ||
			strings.Contains(line, "2001:db8:") || strings.Contains(line, "option:router")
		if names && !strings.HasPrefix(line, "#") && !strings.Contains(line, "set:subnet") &&
			!strings.Contains(line, "tag:subnet") {
			t.Errorf("subnets: every subnet is told %s", line)
		}
	}
}

// TestConfigWithoutLoaders offers no file that the TFTP root lacks, over neither
// protocol.
func TestConfigWithoutLoaders(t *testing.T) {
	s := exampleServer()
	s.Without, s.BindInterfaces, s.Batch = []string{"snponly-arm64.efi"}, true, 200
	text, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	for _, absent := range []string{"/snponly-arm64.efi", ",snponly-arm64.efi", "\nbind-dynamic\n"} {
		if strings.Contains(text, absent) {
			t.Errorf("%q in\n%s", absent, text)
		}
	}
	for _, present := range []string{",undionly.kpxe\n", "/snponly.efi\n", "\nbind-interfaces\n",
		"# No UEFI on 64-bit ARM: snponly-arm64.efi is not in /srv/tftp.\n", "\ntftp-max=200\n"} {
		if !strings.Contains(text, present) {
			t.Errorf("no %q in\n%s", present, text)
		}
	}
}

// TestConfigByHTTP gives firmware that boots by HTTP a URL and the vendor class that
// it waits for, and iPXE the script as ever.
func TestConfigByHTTP(t *testing.T) {
	s := exampleServer()
	s.LoaderURLs = []string{"http://192.0.2.5/boot/", "http://[2001:db8::5]/boot", "http://192.0.2.6/never"}
	text, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"dhcp-match=set:http-efi-x64,option:client-arch,16\n", "dhcp-match=set:http-efi-arm64,option:client-arch,19\n",
		"dhcp-option-force=tag:!ipxe,tag:http-efi-x64,option:vendor-class,HTTPClient\n",
		"dhcp-boot=tag:!ipxe,tag:http-efi-x64,http://192.0.2.5/boot/snponly.efi\n",
		"dhcp-boot=tag:!ipxe,tag:http-efi-arm64,http://192.0.2.5/boot/snponly-arm64.efi\n",
		"dhcp-match=set:http-efi-x646,option6:61,00:10\n", "dhcp-match=set:http-efi-arm646,option6:61,00:13\n",
		"dhcp-option-force=tag:!ipxe,tag:http-efi-x646,option6:16,tr,HTTPClient\n", // 00027472 000a HTTPClient
		"dhcp-option=tag:!ipxe,tag:http-efi-x646,option6:bootfile-url,http://[2001:db8::5]/boot/snponly.efi\n",
		"dhcp-option=tag:!ipxe,tag:http-efi-arm646,option6:bootfile-url,http://[2001:db8::5]/boot/snponly-arm64.efi\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("http-boot: no %q in\n%s", want, text)
		}
	}
	for url, over := range map[string]string{"http://192.0.2.5/boot": "IPv6", "http://[2001:db8::5]/boot": "IPv4"} {
		one := exampleServer()
		one.LoaderURLs = []string{url}
		text, err := one.Config()
		if err != nil || !strings.Contains(text, "# No UEFI HTTP boot: no HTTP server is named that "+over+" reaches") ||
			strings.Count(text, "HTTPClient") != 2 {
			t.Errorf("http-boot: %s alone, %v:\n%s", url, err, text)
		}
	}
	s.Without = []string{"snponly.efi"}
	if text, err = s.Config(); err != nil || strings.Contains(text, "http-efi-x64") {
		t.Errorf("%v: a loader that is missing is named in\n%s", err, text)
	}
}

func TestConfigRefuses(t *testing.T) {
	for want, change := range map[string]func(*Server){
		"no address is left":        func(s *Server) { s.Pools = nil },
		"is in no subnet of lo":     func(s *Server) { s.Addresses = s.Addresses[1:] },
		"router 198.51.100.1 is in": func(s *Server) { s.Router = netip.MustParseAddr("198.51.100.1") },
		"a lease of 1s":             func(s *Server) { s.Lease = time.Second },
		"invalid loader URL":        func(s *Server) { s.LoaderURLs = []string{"192.0.2.5/boot"} },
		"cannot be written":         func(s *Server) { s.Root = "/srv/tf tp" },
		`"" cannot be written`:      func(s *Server) { s.Interface = "" },
		`"a,b" cannot be written`:   func(s *Server) { s.Interface = "a,b" },
		`"a\nb" cannot be written`:  func(s *Server) { s.Root = "a\nb" },
	} {
		s := exampleServer()
		change(&s)
		if out, err := s.Config(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v\n%s", want, err, out)
		}
	}
}

// many is a list of URLs.
func many(n int) string {
	var urls []string
	for i := range n {
		urls = append(urls, Callback(fmt.Sprintf("192.0.2.%d", i+1), 5055, false, "/v1/continue"))
	}
	return strings.Join(urls, ",")
}

// Each URL of a list is judged as one alone: what ends a word of the kernel, a line of iPXE or
// the list, and what no ramdisk can call, is refused wherever it stands.
func TestScriptNamesAListOfURLs(t *testing.T) {
	boot := Boot{Callback: many(maxCallbacks), Kernel: "k", Ramdisk: "r"}
	if text, err := boot.Script(); err != nil || !strings.Contains(text, " ipa-inspection-callback-url="+many(16)+" ") {
		t.Errorf("callback-list: %v\n%s", err, text)
	}
	const good = "http://192.0.2.1:5055/v1/continue"
	for _, bad := range []string{
		"", " ", "192.0.2.2:5055", "192.0.2.2", "ftp://192.0.2.2/v1/continue", "http:///v1/continue",
		"http://:5055/v1/continue",
		"http://192.0.2.2:0/v1/continue", "http://192.0.2.2:/v1/continue", "http://192.0.2.2:65536/v1/continue",
		"http://192.0.2.2:x/v1/continue", "http://192.0.2.2:5055", "http://u:p@192.0.2.2:5055/v1/continue",
		"http://192.0.2.2/v1/continue console=ttyS0", "http://192.0.2.2/v1\n", "http://192.0.2.2/v1\tx",
		"http://192.0.2.2/v1\x00",
		"http://192.0.2.2/${net0/mac}", "http://192.0.2.2/v1#x", "http://192.0.2.2/a||shell", "http://192.0.2.2/a&&shell",
		`http://192.0.2.2/"a`, `http://192.0.2.2/'a`, `http://192.0.2.2/\a`, "http://192.0.2.2/ä", "http://[2001:db8::1/v1",
	} {
		const last = ",http://192.0.2.9/v1/continue"
		for _, list := range []string{bad, bad + "," + good, good + "," + bad, good + "," + bad + last} {
			if text, err := (Boot{Callback: list, Kernel: "k", Ramdisk: "r"}).Script(); err == nil {
				t.Errorf("callback-checked: %q is let in:\n%s", list, text)
			}
		}
	}
}

func TestScript(t *testing.T) {
	boot := Boot{Callback: Callback("2001:db8::c8", 5050, false, "/v1/continue"), Kernel: "k",
		Ramdisk: "http://files/r", Arguments: "console=ttyS0"}
	text, err := boot.Script()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"#!ipxe\n", "kernel --timeout 30000 k initrd=ramdisk ",
		" ipa-inspection-callback-url=http://[2001:db8::c8]:5050/v1/continue ",
		" BOOTIF=${mac} ", " console=ttyS0 || goto failed\n",
		"initrd --timeout 30000 --name ramdisk http://files/r || goto failed\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for want, change := range map[string]func(*Boot){
		"invalid callback URL": func(b *Boot) { b.Callback = "192.0.2.1:5050" },
		"17 callback URLs":     func(b *Boot) { b.Callback = many(17) },
		"there twice":          func(b *Boot) { b.Callback += "," + b.Callback },
		"cannot stand":         func(b *Boot) { b.Kernel = "a b" },
		`"" cannot stand`:      func(b *Boot) { b.Ramdisk = "" },
		"kernel arguments":     func(b *Boot) { b.Arguments = "x || shell" },
		`"k${x}" cannot stand`: func(b *Boot) { b.Kernel = "k${x}" },
	} {
		b := boot
		change(&b)
		if out, err := b.Script(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v\n%s", want, err, out)
		}
	}
}
