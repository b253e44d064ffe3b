package inspector

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

const (
	resolveTimeout  = 3 * time.Second // a start waits for it
	maxBMCAddresses = 16              // of one name
)

// Resolver finds the addresses of a host; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// firstBMCField is the key of driver_info that may hold the BMC's address before
// all that are configured.
const firstBMCField = "ipmi_address"

// BMCAddresses returns the addresses of a node's BMC, up to 16, as a record
// takes them: of ipmi_address or else of the first of fields that is not empty. A name is resolved within 3 seconds. None and no error means that
// the node has no BMC that could identify it: behind an IPMI bridge the address
// is another machine's. An error says why an address that is there is of no
// use; as in the original's last line that is a warning, and the node may still
// be found by its MACs.
func BMCAddresses(ctx context.Context, r Resolver, n Node, fields []string) ([]string, error) {
	if bridging, there := n.DriverInfo["ipmi_bridging"]; there && bridging != "no" && bridging != nil {
		return nil, nil
	}
	field, host := bmcHost(n.DriverInfo, fields)
	if host == "" {
		return nil, nil
	}
	ips, err := resolve(ctx, r, host)
	if err != nil {
		return nil, fmt.Errorf("driver_info.%s of node %s: %w", field, n.UUID, err)
	}
	var addresses []string
	for _, ip := range ips {
		if !ip.Unmap().IsLoopback() && len(addresses) < maxBMCAddresses {
			addresses = addAddress(addresses, ip.String())
		}
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("driver_info.%s of node %s: %s is an address of the host itself, not of a BMC", field, n.UUID, host)
	}
	return addresses, nil
}

// bmcHost returns the first address there is, a URL reduced to its host.
func bmcHost(info map[string]any, fields []string) (field, host string) {
	for _, field := range append([]string{firstBMCField}, fields...) {
		text, ok := info[field].(string)
		if !ok || text == "" {
			continue
		}
		if strings.Contains(text, "//") {
			u, err := url.Parse(text)
			if err != nil {
				return field, text // which no resolver knows, and says so
			}
			text = u.Hostname()
		}
		return field, strings.Trim(text, "[]")
	}
	return "", ""
}

func resolve(ctx context.Context, r Resolver, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	ips, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("resolve %q: %w", host, err)
	}
	return ips, nil
}
