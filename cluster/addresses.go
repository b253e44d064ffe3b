package cluster

import (
	"context"
	"fmt"
	"net"
)

// maxAddresses bounds the addresses of one host name that are asked.
const maxAddresses = 16

// lookupHost returns the IP addresses of a host name, as [net.Resolver.LookupHost]
// does.
type lookupHost func(ctx context.Context, host string) ([]string, error)

// allOf is all for several hosts; an error of one is the error of all.
func (l lookupHost) allOf(ctx context.Context, hostports []string) (out []string, err error) {
	for _, hostport := range hostports {
		found, err := l.all(ctx, hostport)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// all returns every address of a host, with its port. A dialer would not do where
// each address has to be heard: of several that fail it returns the first one's
// error, so that a name whose first address refuses looks like a stopped peer
// although the peer may listen at another address which does not answer.
func (l lookupHost) all(ctx context.Context, hostport string) ([]string, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	found, err := l(ctx, host)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || len(found) > maxAddresses {
		return nil, fmt.Errorf("%s has %d addresses: want 1 to %d", host, len(found), maxAddresses)
	}
	out := make([]string, len(found))
	for i, ip := range found {
		out[i] = net.JoinHostPort(ip, port)
	}
	return out, nil
}
