package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Each option that is a path is looked at, or is made by the peer or a unit.
func TestEachPathIsAFile(t *testing.T) {
	own := []string{"data_dir", "socket", "firewall.dhcp_hostsdir"}
	c := Default()
	c.API.AuthStrategy, c.API.TLS.Certificate, c.Ironic.AuthType, c.Failover.Mode = StrategyKeystone, TLSFiles,
		"http_basic", FailoverSafe
	c.Inspection.Processing.Hooks = []string{"accelerators"}
	c.Events.Receivers = []string{"a=https://receiver.example/"}
	for i, o := range table {
		switch field := o.field(&c).(type) {
		case *string:
			if f := o.rule.checkValue("x"); f != nil && strings.Contains(f.do, "begin it with /") {
				*field = fmt.Sprintf("/path/%d", i)
			}
		case *[]string:
			if strings.Contains(o.rule.text, "NAME=PATH") {
				*field = []string{fmt.Sprintf("a=/path/%d", i)}
			}
		}
	}
	looked := c.Files()
	c.API.AuthStrategy = "http_basic"
	looked = append(looked, c.Files()...)
	paths := 0
	for i, o := range table {
		path := fmt.Sprintf("/path/%d", i)
		if text := o.text(&c); text != path && text != "a="+path {
			continue
		}
		paths++
		if found := slices.ContainsFunc(
			looked, func(f File) bool { return f.Key == o.Key && f.Path == path }); found == slices.Contains(own, o.Key) {
			t.Errorf("path-is-looked-at: %s: %t", o.Key, found)
		}
	}
	if paths < 18 {
		t.Errorf("%d options are paths", paths)
	}
	if files := Default().Files(); len(files) > 0 {
		t.Errorf("files of no option: %+v", files)
	}
}
