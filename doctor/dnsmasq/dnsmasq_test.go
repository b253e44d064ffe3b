package dnsmasq

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// tree is a directory with files; a name that ends in / is a directory.
type tree map[string]string

func (t tree) Read(name string) ([]byte, error) {
	text, ok := t[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(text), nil
}

func (t tree) List(name string) (out []string, err error) {
	for path := range t {
		if rest, ok := strings.CutPrefix(path, name+"/"); ok && !strings.Contains(rest, "/") {
			out = append(out, rest)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no such directory")
	}
	return out, nil
}

func parse(text string) Config { return Parse(tree{"/c": text}, []string{"/c"}) }

func TestRanges(t *testing.T) {
	for line, want := range map[string]string{
		"dhcp-range=192.168.0.50,192.168.0.150,12h":                              "192.168.0.50-192.168.0.150",
		"dhcp-range = 192.168.0.50 , 192.168.0.150 , 255.255.255.0 , 12h # pool": "192.168.0.50-192.168.0.150/24",
		"dhcp-range=192.168.0.50,192.168.0.150,255.255.255.0,192.168.0.255,1h":   "192.168.0.50-192.168.0.150/24",
		"dhcp-range=set:red,1.1.1.50,1.1.2.150,255.255.252.0":                    "1.1.1.50-1.1.2.150/22",
		"dhcp-range=tag:blue,set:red,10.0.0.1,10.0.0.9":                          "10.0.0.1-10.0.0.9",
		"dhcp-range=eth0,10.0.0.1,10.0.0.9,infinite":                             "10.0.0.1-10.0.0.9",
		"dhcp-range=192.168.0.0,static":                                          "none",
		"dhcp-range=192.168.0.0,proxy":                                           "none",
		"dhcp-range=1234::2, 1234::500, 64, 12h":                                 "1234::2-1234::500/64",
		"dhcp-range=1234::2, 1234::500, slaac":                                   "1234::2-1234::500/64",
		"dhcp-range=1234::, ra-only":                                             "none",
		"dhcp-range=1234::, ra-stateless, ra-names":                              "none",
		"dhcp-range=::100,::1ff,constructor:pxe,56,600":                          "fd00:0:0:1::100-fd00:0:0:1::1ff/56",
		"#dhcp-range=10.0.0.1,10.0.0.9":                                          "",
		"dhcp-range=10.0.0.9,10.0.0.1":                                           "problem",
		"dhcp-range=10.0.0.9,fd00::1":                                            "problem",
		"dhcp-range=tag:only":                                                    "problem",
	} {
		c := parse("\n" + line + "\n")
		var got string
		for _, r := range c.Ranges {
			r = r.On(netip.MustParsePrefix("fd00:0:0:1::7/64"))
			got = fmt.Sprintf("%v-%v", r.First, r.Last)
			if r.Bits > 0 {
				got += fmt.Sprintf("/%d", r.Bits)
			}
			if !r.Gives() {
				got = "none"
			}
			if r.Place.String() != "/c:2" {
				t.Errorf("%s: it is at %v", line, r.Place)
			}
		}
		if len(c.Problems) > 0 {
			got = "problem"
		}
		if got != want {
			t.Errorf("%s: %q, want %q; %v", line, got, want, c.Problems)
		}
	}
}

func TestBootFiles(t *testing.T) {
	c := parse(`enable-tftp=pxe
tftp-root=/srv/tftp,pxe
interface=pxe
except-interface=lo
dhcp-hostsdir=/run/trivet-hosts/
dhcp-boot=tag:ipxe,trivet.ipxe
dhcp-boot=tag:!ipxe,tag:bios,undionly.kpxe,boothost,192.0.2.9
pxe-service=x86PC,"Install Linux",pxelinux,192.0.2.3
pxe-service=x86PC,"Local boot",0
pxe-service=X86-64_EFI, "iPXE", snponly.efi
dhcp-option=tag:ipxe,option6:bootfile-url,tftp://[fd00::1]/trivet.ipxe
dhcp-option=option:bootfile-name,other.0
dhcp-option=option:router
`)
	var got []string
	for _, b := range c.Boots {
		got = append(got, fmt.Sprintf("%d %s %s %v", b.Line, b.Name, b.Server, b.Six))
	}
	want := []string{"6 trivet.ipxe  false", "7 undionly.kpxe 192.0.2.9 false", "8 pxelinux.0 192.0.2.3 false",
		"10 snponly.efi  false", "11 tftp://[fd00::1]/trivet.ipxe  true", "12 other.0  false"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if !c.TFTP || c.TFTPRoot != "/srv/tftp" || !c.Service || !slices.Equal(c.Interfaces, []string{"pxe"}) ||
		!slices.Equal(c.Except, []string{"lo"}) || !slices.Equal(c.HostsDirs, []string{"/run/trivet-hosts"}) {
		t.Errorf("%+v", c)
	}
}

func TestIncludes(t *testing.T) {
	line := func(n int) string { return fmt.Sprintf("dhcp-range=10.0.%d.1,10.0.%d.9\n", n, n) }
	files := tree{
		"/etc/dnsmasq.conf": "conf-dir=/etc/a,*.conf\nconf-dir=/etc/b,.bak,.rpmnew\nconf-file=/etc/one\nconf-file=/etc/dnsmasq.conf\nconf-file=/etc/gone\nconf-file=/etc/c/x?\nconf-script=/bin/true\n" +
			line(0),
		"/etc/a/2.conf":                line(2),
		"/etc/a/1.conf":                line(1),
		"/etc/a/README":                line(99),
		"/etc/a/.hidden.conf":          line(99),
		"/etc/b/x":                     line(3),
		"/etc/b/x.bak":                 line(99),
		"/etc/b/x~":                    line(99),
		"/etc/b/#x#":                   line(99),
		"/etc/b/dir/x":                 line(99),
		"/etc/one":                     line(4),
		"/etc/c/x1":                    line(5),
		"/etc/c/y1":                    line(99),
		"/etc/dnsmasq.d/t.conf":        line(6),
		"/etc/dnsmasq.d/u.conf":        "conf-file=/etc/one\n" + line(7),
		"/etc/dnsmasq.d/old.dpkg-dist": line(99),
	}
	c := Parse(files, []string{"/etc/dnsmasq.conf", "/etc/dnsmasq.d", "/etc/none"})
	var got []string
	for _, r := range c.Ranges {
		got = append(got, r.First.String())
	}
	want := "10.0.1.1 10.0.2.1 10.0.3.1 10.0.4.1 10.0.5.1 10.0.0.1 10.0.6.1 10.0.7.1"
	if strings.Join(got, " ") != want {
		t.Errorf("%v\nwant %v", got, want)
	}
	var problems []string
	for _, p := range c.Problems {
		problems = append(problems, p.Place.String())
	}
	if !slices.Equal(problems, []string{"/etc/dnsmasq.conf:5", "/etc/dnsmasq.conf:7"}) {
		t.Errorf("%v", c.Problems)
	}
}

// Files that include each other without end are told, not followed.
func TestIncludesWithoutEnd(t *testing.T) {
	files := make(tree)
	for i := range 2 * maxDepth {
		files[fmt.Sprintf("/f%d", i)] = fmt.Sprintf("conf-file=/f%d\n", i+1)
	}
	if c := Parse(files, []string{"/f0"}); len(c.Problems) == 0 || len(c.Files) > maxDepth+1 {
		t.Errorf("%d files, %v", len(c.Files), c.Problems)
	}
}
