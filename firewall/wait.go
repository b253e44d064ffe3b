package firewall

import "time"

// LateIPv6 is how much later than IPv4's a kernel removes an IPv6 address
// (measured: up to 0.78 s).
const LateIPv6 = time.Second

// passWait is how long another host may have PXE open after its last proof.
func (o GuardOptions) passWait() time.Duration { return 2*o.Length + margin }

// addressWait is how long another host may hold the address after its last proof:
// it lives for as long as the kernel can count, however short the lease.
func (o GuardOptions) addressWait() time.Duration {
	return max(2*o.Length, freshAddress+addressLife) + margin + o.AddressSlack
}
