package keepalived

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// tree is a directory with files.
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
	return out, nil
}

// The form of the files that keepalived brings along.
const sample = `! Configuration File for keepalived

global_defs {
   router_id LVS_DEVEL
}

vrrp_instance VI_1 {
    state MASTER
    interface eth0
    virtual_router_id 51
    authentication { auth_type PASS
        auth_pass 1111 }
    virtual_ipaddress {
        192.168.200.16/24 dev eth0 label eth0:1
        # 192.168.200.17
        192.168.200.18  ! the last
    }
    virtual_ipaddress_excluded
    {
        fd00::16/64
    }
    virtual_routes { 10.0.0.1 }
}
vrrp_instance VI_2 { virtual_ipaddress { 10.9.9.9 } }
include conf.d/*.conf
include more.conf
`

func TestClaims(t *testing.T) {
	files := tree{
		"/etc/keepalived/keepalived.conf": sample,
		"/etc/keepalived/conf.d/b.conf":   "virtual_ipaddress {\n10.0.0.2\n}\n",
		"/etc/keepalived/conf.d/a.conf":   "\ninclude ../keepalived.conf\nvirtual_ipaddress {\n10.0.0.1/32\n}\n",
		"/etc/keepalived/conf.d/c.bak":    "virtual_ipaddress {\n10.0.0.3\n}\n",
	}
	claims, err := Claims(files, "/etc/keepalived/keepalived.conf")
	if err == nil {
		t.Error("more.conf is not there, and that is no error")
	}
	want := "[keepalived.conf:14 192.168.200.16] [keepalived.conf:16 192.168.200.18] [keepalived.conf:20 fd00::16] [keepalived.conf:24 10.9.9.9] [conf.d/a.conf:4 10.0.0.1] [conf.d/b.conf:2 10.0.0.2]"
	var got []string
	for _, c := range claims {
		got = append(got, fmt.Sprintf("[%s:%d %v]", strings.TrimPrefix(c.File, "/etc/keepalived/"), c.Line, c.Address))
	}
	if strings.Join(got, " ") != want {
		t.Errorf("%s\nwant\n%s", strings.Join(got, " "), want)
	}
	if claims, err := Claims(tree{}, "/nowhere"); err == nil || len(claims) > 0 {
		t.Errorf("without a file: %v, %v", claims, err)
	}
}
