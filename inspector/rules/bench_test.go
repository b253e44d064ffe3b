package rules

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// rackData is what a ramdisk sends of a machine with many NICs and disks: 30 KB.
func rackData() string {
	var b strings.Builder
	b.WriteString(
		`{"cpus":8,"cpu_arch":"x86_64","memory_mb":65536,"inventory":{"bmc_address":"198.18.21.1","cpu":{"count":8,"flags":["fpu"`)
	for i := range 120 {
		fmt.Fprintf(&b, `,"flag%d"`, i)
	}
	b.WriteString(`]},"interfaces":[`)
	for i := range 32 {
		fmt.Fprintf(&b,
			`%s{"name":"eth%d","mac_address":"52:54:00:15:00:%02x","ipv4_address":"172.24.42.%d","has_carrier":true,"lldp":[[1,"04001b54aa0101"],[2,"0545746865726e6574312f31"],[4,"75706c696e6b20746f206e6f64652031"],[127,"0080c203006408766c616e2d313030"],[127,"0080c203006608766c616e2d313032"],[127,"00120f01036c010010"]],"vendor":"0x8086","product":"0x1572","client_id":null,"speed_mbps":10000}`,
			strings.Repeat(",", min(i, 1)), i, i, i)
	}
	b.WriteString(`],"disks":[`)
	for i := range 110 {
		fmt.Fprintf(&b,
			`%s{"name":"/dev/sd%d","model":"LAB DISK","size":1000000000000,"rotational":false,"wwn":"0x5000c500a%d","serial":"SLAB%06d","vendor":"LAB","hctl":"0:0:%d:0"}`,
			strings.Repeat(",", min(i, 1)), i, i, i, i)
	}
	b.WriteString(`]}}`)
	return b.String()
}

// BenchmarkRules is 100 rules on a ramdisk's data: 5 ms at the most.
func BenchmarkRules(b *testing.B) {
	data := rackData()
	if n := len(data); n < 25<<10 || n > 35<<10 {
		b.Fatalf("%d bytes", n)
	}
	var rules []string
	for i := range 100 {
		rules = append(rules, fmt.Sprintf(`{"conditions":[
			{"op":"ge","field":"memory_mb","value":%d},
			{"op":"matches","field":"inventory.interfaces[*].mac_address","value":"52:54:00:[0-9a-f:]+:%02x"},
			{"op":"contains","field":"inventory.disks[%d].serial","value":"(?i)slab0*\\d+$"},
			{"op":"eq","field":"inventory..serial","value":"SLAB%06d"},
			{"op":"in-net","field":"inventory.bmc_address","value":"198.18.0.0/15"},
			{"op":"eq","field":"node://provision_state","value":"manageable"}],
			"actions":[{"action":"set-attribute","path":"/extra/r%d","value":"{data[cpus]:>4} of {data[inventory][disks][%d][serial]}"}]}`,
			i, i%32, i%64, i%64, i, i%64))
	}
	e, v, r := NewEngine(), stateWith(b, rules...), newRoom(b, plainNode)
	b.ReportAllocs()
	before := used(b)
	for b.Loop() {
		r.calls = nil
		if err := e.Apply(b.Context(), v, r.task(b, data)); err != nil {
			b.Fatal(err)
		}
		if len(r.calls) != 101 { // the node, and one patch a rule
			b.Fatalf("%d calls", len(r.calls))
		}
	}
	b.ReportMetric(float64((used(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// used is the processor time of this process, with what the collector took.
func used(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
