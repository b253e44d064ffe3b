package doctor

import (
	"io/fs"
	"net/netip"
	"testing"

	"github.com/trivet-ha/trivet/doctor/dnsmasq"
	"github.com/trivet-ha/trivet/firewall/pxe"
)

// oneFile is a host whose dnsmasq has one file.
type oneFile string

func (f oneFile) Read(string) ([]byte, error)   { return []byte(f), nil }
func (f oneFile) List(string) ([]string, error) { return nil, fs.ErrInvalid }

// TestPoolsOfDnsmasqConfig: what 'trivet dnsmasq-config' gives three peers is right
// to the doctor, whatever is left to hosts; peers that leave hosts different parts
// of the subnet grant the same addresses, which it finds.
func TestPoolsOfDnsmasqConfig(t *testing.T) {
	pools := func(t *testing.T, reserve ...int) []Finding {
		hosts := healthy()
		for i := range hosts {
			link, _ := hosts[i].link("pxe")
			s := pxe.Server{Interface: "pxe", Addresses: link.Addresses, Lease: pxe.UsualLease, Root: pxe.Root,
				Batch: pxe.DefaultBatch}
			cut := pxe.Cut{Part: i, Parts: len(hosts), Reserve: reserve[i],
				Keep: []netip.Addr{netip.MustParseAddr(hosts[i].Plan.FloatingIP)}}
			for _, a := range link.Addresses {
				cut.Keep = append(cut.Keep, a.Addr())
			}
			for _, a := range link.Addresses {
				share, err := cut.Share(a.Masked())
				if err != nil {
					t.Fatal(err)
				}
				s.Pools = append(s.Pools, share...)
			}
			text, err := s.Config()
			if err != nil {
				t.Fatal(err)
			}
			hosts[i].DHCP.Conf = dnsmasq.Parse(oneFile(text), []string{pxe.ConfFile})
			if n := len(hosts[i].DHCP.Conf.Ranges); n != len(s.Pools) {
				t.Fatalf("%d of %d pools are read", n, len(s.Pools))
			}
		}
		return judge(t, hosts, "pools")
	}
	for _, reserve := range []int{0, 16, 100} {
		for _, f := range pools(t, reserve, reserve, reserve) {
			t.Errorf("--reserve %d: %+v", reserve, f)
		}
	}
	if found := pools(t, 0, 16, 0); len(found) == 0 || found[0].Severity != Error {
		t.Errorf("hosts with different --reserve: %+v", found)
	}
}
