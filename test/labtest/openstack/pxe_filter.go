//go:build e2e

package openstack

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// PXEFilter is Ironic's own: one process that writes a file for each MAC, which dnsmasq reads when
// it changes ("MAC" lets the machine boot, "MAC,ignore" does not).
type PXEFilter struct {
	t    testing.TB
	dir  string // of the files
	proc *program.Process
}

// StartPXEFilter runs it next to Ironic with the options that it comes with, and waits until it
// has gone through all ports once.
func (i *Ironic39) StartPXEFilter() *PXEFilter {
	i.test.Helper()
	f := &PXEFilter{t: i.test, dir: filepath.Join(i.root, i.dir, "hosts")}
	testenv.Must(i.test, os.Mkdir(f.dir, 0o755))
	// It refuses the transport of conductor and API, and reads their database.
	conf := strings.Replace(i.config(i.Addr, ""), "rpc_transport = json-rpc", "rpc_transport = none", 1)
	conf = strings.Replace(conf, "/ironic.log", "/filter.log", 1)
	conf += "[pxe_filter]\ndhcp_hostsdir = " + i.dir + "/hosts\n"
	testenv.PutFile(i.test, filepath.Join(i.root, i.dir), "filter.conf", conf)
	f.proc = program.Run(i.test, i.command("ironic-pxe-filter", "--config-file", i.dir+"/filter.conf"), syscall.SIGKILL)
	testwait.Within(i.test, ironic39Ready, "ironic-pxe-filter has written its files", func() error {
		if !f.proc.Running() {
			text, _ := os.ReadFile(filepath.Join(i.root, i.dir, "filter.log")) // it may have died before
			i.test.Fatalf("ironic-pxe-filter exited with %d:\n%s", f.proc.Code, program.Tail(string(text), 20))
		}
		_, err := os.Stat(filepath.Join(f.dir, "unknown_hosts_filter")) // the last one of a round
		return err
	})
	return f
}

// Kill9 kills it, as the end of its host would.
func (f *PXEFilter) Kill9() {
	f.t.Helper()
	if err := f.proc.End(syscall.SIGKILL, busyLimit); err != nil {
		f.t.Fatalf("kill ironic-pxe-filter: %v", err)
	}
}

// Allows reports whether the files let a machine boot; one without a file may not, it is unknown.
func (f *PXEFilter) Allows(m Machine) bool {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, m.MAC))
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	return string(bytes.TrimSpace(text)) == m.MAC
}
